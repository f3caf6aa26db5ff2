//! One item of a cron field: `*`, `*/n`, `a`, `a-b` or `a-b/n`, with names, turned into the plain numeric item that
//! the `cron` crate reads; or an error that shows the item as it should have been.

use crate::clock::error::{ClockError, Source};

use super::field::Field;

/// An item in the crate's terms.
pub(crate) struct CronItem {
    pub first: u32,
    pub last: u32,
    pub step: u32,
}

impl CronItem {
    /// The item as the crate reads it; it refuses steps that are longer than the field, which leave the first value.
    pub(crate) fn text(&self) -> String {
        let CronItem { first, last, step } = *self;
        if first == last || step > last - first {
            first.to_string()
        } else if step == 1 {
            format!("{first}-{last}")
        } else {
            format!("{first}-{last}/{step}")
        }
    }
}

/// Reads one item (in lower case).
pub(crate) fn read(source: &Source<'_>, field: Field, item: &str) -> Result<CronItem, ClockError> {
    let (min, max) = field.range();
    let (base, step_text) = match item.split_once('/') {
        Some((base, step)) => (base, Some(step)),
        None => (item, None),
    };
    let step = match step_text {
        None => 1,
        Some(text) => step(source, field, item, base, text)?,
    };
    if base.contains('?') {
        let (reason, rule) = ("? is not used here", "a star means every value");
        return Err(match base {
            "?" => source.repairable(field, base, reason, "*", rule),
            _ => source.field_error(field, base, reason, rule),
        });
    }
    if base.is_empty() {
        let with = format!("*{}", source.original(item));
        let rule = "a step needs a range before it";
        return Err(source.repairable(field, item, "a step without a range", &with, rule));
    }
    if base != "*" && base.starts_with('*') {
        let (reason, rule) = ("characters after the star", "a star stands alone or before a step");
        let rest = base.trim_start_matches('*');
        let with = match rest.parse::<u32>() {
            Ok(n) if n > 0 && step_text.is_none() && rest.len() + 1 == base.len() => Some(format!("*/{n}")),
            Err(_) if rest.is_empty() && step_text.is_none() => Some("*".to_owned()),
            Ok(_) | Err(_) => None,
        };
        return Err(match with {
            Some(with) => source.repairable(field, item, reason, &with, rule),
            None => source.field_error(field, item, reason, rule),
        });
    }
    let (first, last, is_range) = if base == "*" {
        (min, max, true)
    } else if let Some((from, to)) = base.split_once('-') {
        let (first, last) = range(source, field, item, (from, to), step)?;
        (first, last, true)
    } else {
        let n = value(source, field, base, ValuePosition::Alone)?;
        (n, n, false)
    };
    if let (Some(text), false) = (step_text, is_range) {
        let upper = if field == Field::DayOfWeek && first < 7 { 6.max(first) } else { max };
        let with = format!("{}-{upper}/{text}", source.original(base));
        let rule = "a step counts over a range, and a lone number has none";
        return Err(source.repairable(field, item, "a step needs a range", &with, rule));
    }
    Ok(CronItem { first, last, step })
}

fn step(source: &Source<'_>, field: Field, item: &str, base: &str, text: &str) -> Result<u32, ClockError> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if is_number && text.bytes().any(|b| b != b'0') {
        // A step longer than any field leaves the first value, however long.
        return Ok(text.parse().unwrap_or(u32::MAX));
    }
    let rule = "a step is a whole number from 1";
    if is_number && !base.is_empty() && read(source, field, base).is_ok() {
        return Err(source.repairable(field, item, "the step is 0", source.original(base), rule));
    }
    let reason = if is_number {
        "the step is 0"
    } else if text.is_empty() {
        "the step is missing"
    } else {
        "the step is not a number"
    };
    Err(source.field_error(field, item, reason, rule).with_example(Field::Minute.example()))
}

/// Where a value stands, which decides what an out-of-range one was meant to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValuePosition {
    Alone,
    RangeStart,
    RangeEnd,
}

fn range(
    source: &Source<'_>,
    field: Field,
    item: &str,
    (from, to): (&str, &str),
    step: u32,
) -> Result<(u32, u32), ClockError> {
    let (_, max) = field.range();
    if from.is_empty() || to.is_empty() {
        return Err(source.field_error(field, item, "a range without both ends", "a range has two ends"));
    }
    let first = value(source, field, from, ValuePosition::RangeStart)?;
    let mut last = value(source, field, to, ValuePosition::RangeEnd)?;
    if field == Field::DayOfWeek && last == 0 && first > 0 {
        // A range that ends on Sunday (docs/reference/clocks.md, rule 15).
        last = 7;
    }
    if first > last {
        let reason = "the range runs backwards";
        let rule = format!("a range runs from the smaller to the greater value, at most to {max}");
        return Err(match wrapped(field, first, last, step) {
            Some(with) => source.repairable(field, item, reason, &with, rule),
            None => source.field_error(field, item, reason, rule),
        });
    }
    Ok((first, last))
}

/// The list that a backwards range was meant to be. Years do not come round, so a step over them has no beginning.
fn wrapped(field: Field, first: u32, last: u32, step: u32) -> Option<String> {
    let (min, max) = if field == Field::DayOfWeek { (0, 6) } else { field.range() };
    let first = if field == Field::DayOfWeek { first % 7 } else { first };
    let run = |a: u32, b: u32| if a == b { a.to_string() } else { format!("{a}-{b}") };
    if field == Field::Year {
        return (step == 1).then(|| run(last, first));
    }
    if first <= last {
        return Some(if step == 1 { run(first, last) } else { format!("{}/{step}", run(first, last)) });
    }
    if step == 1 {
        return Some(format!("{},{}", run(first, max), run(min, last)));
    }
    let size = max - min + 1;
    let values = (first..=last + size).step_by(step as usize);
    let values: Vec<String> = values.map(|n| if n > max { n - size } else { n }.to_string()).collect();
    Some(values.join(","))
}

fn value(source: &Source<'_>, field: Field, text: &str, position: ValuePosition) -> Result<u32, ClockError> {
    let (min, max) = field.range();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return match text.parse::<u32>() {
            Ok(n) if (min..=max).contains(&n) => Ok(n),
            Ok(n) => Err(out_of_range(source, field, text, n, position)),
            Err(_) => Err(out_of_range(source, field, text, u32::MAX, position)),
        };
    }
    if let Some(number) = field.number_of(text) {
        return Ok(number);
    }
    if let Some(name) = field.shortened(text) {
        let rule = "names are the first three English letters";
        return Err(source.repairable(field, text, "not a name of three letters", name, rule));
    }
    let rule = format!(
        "this field takes *, numbers from {min} to {max}{}, ranges a-b, steps a-b/n and lists of them",
        match field {
            Field::Month => " or jan to dec",
            Field::DayOfWeek => " or sun to sat, dL and d#k",
            Field::DayOfMonth => ", L, LW and nW",
            Field::Second | Field::Minute | Field::Hour | Field::Year => "",
        }
    );
    Err(source.field_error(field, text, "not a number or a name of this field", rule))
}

/// The 60th minute is the next hour's first, and a 13th month the next year's; what is further off was meant to be as far as it goes, but
/// for a year that stands where the days of the week do, and months that are counted from 0.
fn out_of_range(source: &Source<'_>, field: Field, text: &str, n: u32, position: ValuePosition) -> ClockError {
    let (min, max) = field.range();
    let reason = "out of range";
    if field == Field::DayOfWeek && (1970..=2099).contains(&n) {
        let rule = "the year is the last of seven fields, of which the first is the seconds";
        return source.field_error(field, text, reason, rule).with_example("0 0 9 * * * 2027");
    }
    let rule = format!("the {} is from {min} to {max}", field.name());
    if field == Field::Month && position == ValuePosition::RangeStart {
        return source.field_error(field, text, reason, rule);
    }
    let comes_round =
        n == max + 1 && position == ValuePosition::Alone && !matches!(field, Field::DayOfMonth | Field::Year);
    let with = match field {
        Field::Month | Field::DayOfWeek if comes_round => 1,
        Field::Second | Field::Minute | Field::Hour if comes_round => min,
        Field::Year if n < 100 => 2000 + n,
        Field::Second
        | Field::Minute
        | Field::Hour
        | Field::DayOfMonth
        | Field::Month
        | Field::DayOfWeek
        | Field::Year => n.clamp(min, max),
    };
    source.repairable(field, text, reason, &with.to_string(), rule)
}
