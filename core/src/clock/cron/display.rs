//! The canonical text of a cron clock, made of its sets: equal clocks print alike, and the text parses to the clock.

use std::fmt;

use super::field::Field;
use super::Cron;

impl fmt::Display for Cron {
    /// Writes the five, six or seven fields.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.seconds != 1 || self.years.is_some() {
            write!(f, "{} ", plain(Field::Second, self.seconds))?;
        }
        let days = &self.days;
        write!(f, "{} ", starred(Field::Minute, self.minutes, self.minute_star))?;
        write!(f, "{} ", starred(Field::Hour, u64::from(self.hours), self.hour_star))?;

        let mut items = starred(Field::DayOfMonth, u64::from(days.plain), days.month_star);
        for day in bits(u64::from(days.nearest)) {
            push(&mut items, &format!("{day}W"));
        }
        if days.last {
            push(&mut items, "L");
        }
        if days.last_weekday {
            push(&mut items, "LW");
        }
        write!(f, "{items} {} ", plain(Field::Month, u64::from(self.months)))?;

        let mut items = starred(Field::DayOfWeek, u64::from(days.week), days.week_star);
        for day in bits(u64::from(days.week_last)) {
            push(&mut items, &format!("{day}L"));
        }
        for (k, &set) in (1..).zip(&days.week_nth) {
            for day in bits(u64::from(set)) {
                push(&mut items, &format!("{day}#{k}"));
            }
        }
        write!(f, "{}{items}", if days.both { "+" } else { "" })?;

        match &self.years {
            Some(years) => write!(f, " {}", ranges(years.iter())),
            None => Ok(()),
        }
    }
}

/// A field whose star means nothing but "all".
fn plain(field: Field, set: u64) -> String {
    if set == all(field) {
        "*".to_owned()
    } else {
        ranges(bits(set))
    }
}

/// A field in which a star at the beginning has a meaning of its own: it is kept, and none is added.
fn starred(field: Field, set: u64, star: bool) -> String {
    if !star {
        return ranges(bits(set));
    }
    let (min, max) = field.range();
    for step in 1..=max + 1 {
        let stepped = (min..=max).step_by(step as usize).fold(0, |bits, n| bits | 1u64 << fold(field, n));
        if stepped & !set == 0 {
            let mut items = if step == 1 { "*".to_owned() } else { format!("*/{step}") };
            let rest = set & !stepped;
            if rest != 0 {
                push(&mut items, &ranges(bits(rest)));
            }
            return items;
        }
    }
    ranges(bits(set))
}

/// 7 is Sunday too.
const fn fold(field: Field, n: u32) -> u32 {
    match field {
        Field::DayOfWeek => n % 7,
        Field::Second | Field::Minute | Field::Hour | Field::DayOfMonth | Field::Month | Field::Year => n,
    }
}

fn all(field: Field) -> u64 {
    let (min, max) = field.range();
    (min..=max).fold(0, |bits, n| bits | 1u64 << fold(field, n))
}

fn bits(set: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |&n| set >> n & 1 != 0)
}

fn push(items: &mut String, item: &str) {
    if !items.is_empty() {
        items.push(',');
    }
    items.push_str(item);
}

/// Rising numbers as `1,3-5`; a pair stays a list.
fn ranges(numbers: impl Iterator<Item = u32>) -> String {
    let mut out = String::new();
    let mut run: Option<(u32, u32)> = None;
    for n in numbers {
        run = match run {
            Some((first, last)) if last + 1 == n => Some((first, n)),
            Some((first, last)) => {
                push_run(&mut out, first, last);
                Some((n, n))
            }
            None => Some((n, n)),
        };
    }
    if let Some((first, last)) = run {
        push_run(&mut out, first, last);
    }
    out
}

fn push_run(out: &mut String, first: u32, last: u32) {
    match last - first {
        0 => push(out, &first.to_string()),
        1 => push(out, &format!("{first},{last}")),
        _ => push(out, &format!("{first}-{last}")),
    }
}
