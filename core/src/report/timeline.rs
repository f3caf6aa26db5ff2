//! One schedule in 80 columns of text, for a terminal that is asked again and again.

use crate::clock::zone::Zone;
use crate::keyword::Keyword;
use crate::lease::Status;

use super::axis::{Axis, WHOLE};
use super::rows::{Attempt, Mark, Schedule, View};
use super::verdict::Verdict;
use super::wall::Wall;
use super::wording::number;

/// How wide a terminal is.
const COLUMNS: usize = 80;
/// How many plan times are told in words.
const TOLD: usize = 8;

/// Draws a schedule; `zone` is that of the labels. No line is wider than 80 columns.
#[must_use]
pub fn timeline(schedule: &Schedule, view: &View, zone: &dyn Zone) -> Vec<String> {
    let wall = Wall::new(&zone, view.now);
    let axis = Axis::new(view, &wall);
    let mut marks: Vec<&Mark> =
        schedule.drawn().filter(|mark| axis.shows(mark.first) && axis.shows(mark.last)).collect();
    marks.sort_by_key(|mark| mark.first);

    let mut lines = vec![heading(schedule, view), scope(&axis)];
    lines.extend(ruler(&axis));
    lines.push(verdicts(&marks, &axis));
    lines.extend(several(&marks, &axis));
    lines.extend(bars(&marks, &axis));
    lines.push(legend(&marks, view.ascii_only));
    lines.extend(told(&marks, &axis));
    lines
}

/// The column of a place.
fn column(place: i64) -> usize {
    let columns = i64::try_from(COLUMNS).unwrap_or(i64::MAX);
    usize::try_from(place * columns / WHOLE).unwrap_or(0).min(COLUMNS - 1)
}

fn trimmed(cells: &[char]) -> String {
    cells.iter().collect::<String>().trim_end().to_owned()
}

/// The name, its clock and what state it is in.
fn heading(schedule: &Schedule, view: &View) -> String {
    let name = schedule.name.for_terminal(40, view.ascii_only);
    let clock = schedule.clock.for_terminal(24, view.ascii_only);
    let state: String = schedule.state.chars().filter(char::is_ascii_graphic).take(10).collect();
    format!("{name}  {clock}  {state}").trim_end().to_owned()
}

/// What the axis covers.
fn scope(axis: &Axis<'_>) -> String {
    let zone = axis.view.time_zone.for_terminal(24, axis.view.ascii_only);
    format!("{} to {}, {zone}", axis.wall.moment(axis.view.from), axis.wall.moment(axis.view.to))
}

/// Labels, and a line with a tick under each; `now` and changes of the clocks are in the line.
fn ruler(axis: &Axis<'_>) -> [String; 2] {
    let (line, cross, now, change) =
        if axis.view.ascii_only { ('-', '+', '#', '%') } else { ('\u{2500}', '\u{252c}', '\u{2503}', '\u{2592}') };
    let mut labels = [' '; COLUMNS];
    let mut ruler = [line; COLUMNS];
    let mut free = 0;
    for tick in axis.ticks() {
        let at = column(tick.place.0);
        ruler[at] = cross;
        let Some(label) = tick.label else { continue };
        let start = at.saturating_sub(label.len() / 2);
        if start >= free && start + label.len() <= COLUMNS {
            for (cell, c) in labels[start..].iter_mut().zip(label.chars()) {
                *cell = c;
            }
            free = start + label.len() + 1;
        }
    }
    for clocks in axis.changes() {
        let (from, to) = clocks.band(axis);
        ruler[column(from.0)..=column(to.0)].fill(change);
    }
    if axis.shows(axis.view.now) {
        ruler[column(axis.place(axis.view.now).0)] = now;
    }
    [trimmed(&labels), trimmed(&ruler)]
}

fn character(verdict: Verdict, ascii_only: bool) -> char {
    let (unicode, ascii) = verdict.characters();
    if ascii_only {
        ascii
    } else {
        unicode
    }
}

/// The columns that a mark takes.
fn columns_of(mark: &Mark, axis: &Axis<'_>) -> std::ops::RangeInclusive<usize> {
    column(axis.clipped(mark.first).0)..=column(axis.clipped(mark.last).0)
}

/// What became of the plan times; of several in one column the loudest.
fn verdicts(marks: &[&Mark], axis: &Axis<'_>) -> String {
    let mut cells = [' '; COLUMNS];
    for verdict in Verdict::ALL.iter().rev() {
        for mark in marks.iter().filter(|mark| mark.verdict == *verdict) {
            cells[columns_of(mark, axis)].fill(character(*verdict, axis.view.ascii_only));
        }
    }
    trimmed(&cells)
}

/// How many plan times a column has, where one has more than one.
fn several(marks: &[&Mark], axis: &Axis<'_>) -> Option<String> {
    let mut counts = [0_u64; COLUMNS];
    for mark in marks {
        let columns = columns_of(mark, axis);
        let wide = (columns.end() - columns.start() + 1) as u64;
        for count in &mut counts[columns] {
            *count = count.saturating_add(mark.count.max(1).div_ceil(wide));
        }
    }
    let cells = counts.map(|count| match count {
        0 | 1 => ' ',
        2..=9 => char::from_digit(count as u32, 10).unwrap_or('*'),
        _ => '*',
    });
    counts.iter().any(|count| *count > 1).then(|| trimmed(&cells))
}

/// The runs: failed attempts, and those that succeeded or still run.
fn bars(marks: &[&Mark], axis: &Axis<'_>) -> Option<String> {
    let bar = |attempt: &Attempt| match (attempt.status, axis.view.ascii_only) {
        (Status::Success, false) => '\u{2588}',
        (Status::Success, true) => '=',
        (Status::Failed | Status::Cancelled, false) => '\u{2591}',
        (Status::Failed | Status::Cancelled, true) => ':',
        (Status::Running | Status::Pending, false) => '\u{2593}',
        (Status::Running | Status::Pending, true) => '>',
    };
    let mut cells = [' '; COLUMNS];
    for attempt in marks.iter().filter_map(|mark| mark.run.as_ref()).flat_map(|run| &run.attempts) {
        let end = attempt.ended_at.unwrap_or(axis.view.now);
        if end < axis.view.from || attempt.started_at > axis.view.to {
            continue;
        }
        let (from, to) = (column(axis.clipped(attempt.started_at).0), column(axis.clipped(end).0));
        cells[from..=to.max(from)].fill(bar(attempt));
    }
    cells.iter().any(|cell| *cell != ' ').then(|| trimmed(&cells))
}

/// What the characters mean, and how many there are of each.
fn legend(marks: &[&Mark], ascii_only: bool) -> String {
    let count = |verdict: Verdict| {
        marks
            .iter()
            .filter(|mark| mark.verdict == verdict)
            .fold(0_u64, |sum, mark| sum.saturating_add(mark.count.max(1)))
    };
    let parts: Vec<String> = Verdict::ALL
        .iter()
        .filter(|verdict| count(**verdict) != 0)
        .map(|verdict| format!("{} {} {}", character(*verdict, ascii_only), number(count(*verdict)), verdict.as_str()))
        .collect();
    if parts.is_empty() {
        return "no plan time".to_owned();
    }
    cut(parts.join("  "), ascii_only)
}

/// The newest plan times that have come, in words: first what went wrong.
fn told(marks: &[&Mark], axis: &Axis<'_>) -> Vec<String> {
    let mut come: Vec<&&Mark> = marks.iter().filter(|mark| mark.verdict != Verdict::Planned).collect();
    come.sort_by_key(|mark| (mark.verdict == Verdict::Ran, std::cmp::Reverse(mark.first)));
    come.truncate(TOLD);
    come.sort_by_key(|mark| mark.first);
    come.into_iter()
        .map(|mark| {
            let sign = character(mark.verdict, axis.view.ascii_only);
            let line = format!("{sign} {}  {}", axis.wall.moment(mark.first), mark.words(axis.view.now));
            cut(line, axis.view.ascii_only)
        })
        .collect()
}

/// A line of ours, which has no character of another width, within the columns.
fn cut(line: String, ascii_only: bool) -> String {
    super::user_text::UserText::from(line).for_terminal(COLUMNS, ascii_only)
}
