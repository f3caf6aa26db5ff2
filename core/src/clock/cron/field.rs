//! The seven fields of a cron text: what each may hold and what it is called in a message.

/// One field of a cron text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Seconds, 0–59.
    Second,
    /// Minutes, 0–59.
    Minute,
    /// Hours, 0–23.
    Hour,
    /// Days of the month, 1–31, `L`, `LW`, `nW`.
    DayOfMonth,
    /// Months, 1–12 or names.
    Month,
    /// Days of the week, 0–7 (0 and 7 are Sunday) or names, `dL`, `d#k`.
    DayOfWeek,
    /// Years, 1970–2099.
    Year,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

impl Field {
    /// The fields of a seven-field text, in order.
    pub const ALL: [Field; 7] =
        [Field::Second, Field::Minute, Field::Hour, Field::DayOfMonth, Field::Month, Field::DayOfWeek, Field::Year];

    /// The name used in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Field::Second => "second",
            Field::Minute => "minute",
            Field::Hour => "hour",
            Field::DayOfMonth => "day-of-month",
            Field::Month => "month",
            Field::DayOfWeek => "day-of-week",
            Field::Year => "year",
        }
    }

    /// The least and the greatest number that may be written.
    #[must_use]
    pub const fn range(self) -> (u32, u32) {
        match self {
            Field::Second | Field::Minute => (0, 59),
            Field::Hour => (0, 23),
            Field::DayOfMonth => (1, 31),
            Field::Month => (1, 12),
            Field::DayOfWeek => (0, 7),
            Field::Year => (1970, 2099),
        }
    }

    /// The number that a name of three letters stands for.
    pub(crate) fn number_of(self, name: &str) -> Option<u32> {
        let (names, first) = self.names();
        names.iter().zip(first..).find(|(full, _)| &full[..3] == name).map(|(_, number)| number)
    }

    /// The three letters of a name that was written longer: `monday`, `tues`.
    pub(crate) fn shortened(self, name: &str) -> Option<&'static str> {
        let full = self.names().0.iter().find(|full| name.len() > 3 && full.starts_with(name))?;
        Some(&full[..3])
    }

    /// The names, whole, whose first three letters may stand for numbers, and the number of the first.
    const fn names(self) -> (&'static [&'static str], u32) {
        match self {
            Field::Month => (&MONTHS, 1),
            Field::DayOfWeek => (&DAYS, 0),
            Field::Second | Field::Minute | Field::Hour | Field::DayOfMonth | Field::Year => (&[], 0),
        }
    }

    /// A clock that shows how this field is written.
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Field::Second => "30 * * * * *",
            Field::Minute => "*/15 * * * *",
            Field::Hour => "0 9-17 * * *",
            Field::DayOfMonth => "0 9 1,15 * *",
            Field::Month => "0 9 1 jan,jul *",
            Field::DayOfWeek => "0 9 * * mon-fri",
            Field::Year => "0 0 9 * * * 2027-2030",
        }
    }
}
