//! One item of a cron field: `*`, `*/n`, `a`, `a-b` or `a-b/n`, with names, turned into the plain numeric item that
//! the `cron` crate reads; or an error that shows the item as it should have been.

use super::error::{ClockError, Source};
use super::field::Field;

/// An item in the crate's terms.
pub(crate) struct Plain {
    pub first: u32,
    pub last: u32,
    pub step: u32,
}

impl Plain {
    /// The item as the crate reads it; it refuses steps that are longer than the field, which leave the first value.
    pub(crate) fn text(&self) -> String {
        let Plain { first, last, step } = *self;
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
pub(crate) fn read(source: &Source<'_>, field: Field, item: &str) -> Result<Plain, ClockError> {
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
        return Err(source.repairable(field, base, "? is not used here", "*", ": a star means every value"));
    }
    if base.is_empty() {
        let with = format!("*{}", source.original(item));
        return Err(source.repairable(
            field,
            item,
            "a step without a range",
            &with,
            ": a step needs a range before it",
        ));
    }
    if base != "*" && base.starts_with('*') {
        let rest = base.trim_start_matches('*');
        let with = match rest.parse::<u32>() {
            Ok(n) if n > 0 => format!("*/{n}"),
            Ok(_) | Err(_) => "*".to_owned(),
        };
        return Err(source.repairable(field, item, "characters after the star", &with, " if that is what you mean"));
    }
    let (first, last, is_range) = if base == "*" {
        (min, max, true)
    } else if let Some((from, to)) = base.split_once('-') {
        let (first, last) = range(source, field, item, from, to, step_text)?;
        (first, last, true)
    } else {
        let n = value(source, field, base, Place::Alone)?;
        (n, n, false)
    };
    if let (Some(text), false) = (step_text, is_range) {
        let upper = if field == Field::DayOfWeek && first < 7 { 6.max(first) } else { max };
        let with = format!("{}-{upper}/{text}", source.original(base));
        let because = ": a step counts over a range, and a lone number has none";
        return Err(source.repairable(field, item, "a step needs a range", &with, because));
    }
    Ok(Plain { first, last, step })
}

fn step(source: &Source<'_>, field: Field, item: &str, base: &str, text: &str) -> Result<u32, ClockError> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if is_number && text.bytes().any(|b| b != b'0') {
        // A step longer than any field leaves the first value, however long.
        return Ok(text.parse().unwrap_or(u32::MAX));
    }
    let reason = if is_number {
        "the step is 0"
    } else if text.is_empty() {
        "the step is missing"
    } else {
        "the step is not a number"
    };
    let readable = !base.is_empty() && read(source, field, base).is_ok();
    let with = if readable { source.original(base) } else { "*" };
    Err(source.repairable(field, item, reason, with, ": a step is a whole number from 1"))
}

/// Where a value stands, which decides what an out-of-range one was meant to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Alone,
    RangeStart,
    RangeEnd,
}

fn range(
    source: &Source<'_>,
    field: Field,
    item: &str,
    from: &str,
    to: &str,
    step_text: Option<&str>,
) -> Result<(u32, u32), ClockError> {
    let (_, max) = field.range();
    if from.is_empty() || to.is_empty() {
        let end = if from.is_empty() { to } else { from };
        let with = if end.is_empty() || end.contains('-') { "*" } else { source.original(end) };
        return Err(source.repairable(field, item, "a range without both ends", with, ": a range has two ends"));
    }
    let first = value(source, field, from, Place::RangeStart)?;
    let mut last = value(source, field, to, Place::RangeEnd)?;
    if field == Field::DayOfWeek && last == 0 && first > 0 {
        // A range that ends on Sunday (CLOCKS.md rule 15).
        last = 7;
    }
    if first > last {
        let step = step_text.and_then(|text| text.parse::<u32>().ok()).filter(|&n| n > 0);
        let with = wrapped(field, first, last, step.unwrap_or(1));
        let because = format!(
            ": a range runs from the smaller to the greater value, at most to {}",
            if field == Field::DayOfWeek { 7 } else { max }
        );
        return Err(source.repairable(field, item, "the range runs backwards", &with, &because));
    }
    Ok((first, last))
}

/// The list that a backwards range was meant to be.
fn wrapped(field: Field, first: u32, last: u32, step: u32) -> String {
    let (min, max) = if field == Field::DayOfWeek { (0, 6) } else { field.range() };
    let first = if field == Field::DayOfWeek { first % 7 } else { first };
    let run = |a: u32, b: u32| if a == b { a.to_string() } else { format!("{a}-{b}") };
    if first <= last {
        return if step == 1 { run(first, last) } else { format!("{}/{step}", run(first, last)) };
    }
    if field == Field::Year {
        return run(last, first);
    }
    if step == 1 {
        return format!("{},{}", run(first, max), run(min, last));
    }
    let size = max - min + 1;
    let values = (first..=last + size).step_by(step as usize);
    let values: Vec<String> = values.map(|n| if n > max { n - size } else { n }.to_string()).collect();
    values.join(",")
}

fn value(source: &Source<'_>, field: Field, text: &str, place: Place) -> Result<u32, ClockError> {
    let (min, max) = field.range();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return match text.parse::<u32>() {
            Ok(n) if (min..=max).contains(&n) => Ok(n),
            Ok(n) => Err(out_of_range(source, field, text, n, place)),
            Err(_) => Err(out_of_range(source, field, text, u32::MAX, place)),
        };
    }
    let (names, base) = field.names();
    if let Some(index) = names.iter().position(|&name| name == text) {
        return Ok(base + index as u32);
    }
    if let Some(name) = names.iter().find(|&&name| text.len() > 3 && text.starts_with(name)) {
        let because = ": names are the first three English letters";
        return Err(source.repairable(field, text, "not a name of three letters", name, because));
    }
    let hint = format!(
        "Write {}, which is valid: this field takes *, numbers from {min} to {max}{}, ranges a-b, steps a-b/n and lists of them.",
        super::error::quoted(&source.repaired(text, &stand_in(field, place))),
        match field {
            Field::Month => " or jan to dec",
            Field::DayOfWeek => " or sun to sat, dL and d#k",
            Field::DayOfMonth => ", L, LW and nW",
            Field::Second | Field::Minute | Field::Hour | Field::Year => "",
        }
    );
    Err(source.field_error(field, text, "not a number or a name of this field", hint))
}

/// A value that can stand where an unreadable one stood.
fn stand_in(field: Field, place: Place) -> String {
    let (min, max) = field.range();
    match place {
        Place::Alone => "*".to_owned(),
        Place::RangeStart => min.to_string(),
        Place::RangeEnd => max.to_string(),
    }
}

fn out_of_range(source: &Source<'_>, field: Field, text: &str, n: u32, place: Place) -> ClockError {
    let (min, max) = field.range();
    let next_after_last = n == max + 1 && place == Place::Alone && field != Field::DayOfMonth && field != Field::Year;
    let with = if next_after_last && matches!(field, Field::DayOfWeek | Field::Month) {
        "1"
    } else if next_after_last {
        "0"
    } else if n < min {
        &min.to_string()
    } else {
        &max.to_string()
    };
    let because = format!(": the {} is from {min} to {max}", field.name());
    source.repairable(field, text, "out of range", with, &because)
}
