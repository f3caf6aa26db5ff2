//! The table of schedules: its last column is the picture, and the columns before it say the same in words.
//!
//! What the rows have in common, the now line and the clock changes, is drawn once behind all of them.

use std::fmt::Write as _;

use crate::keyword::Keyword;
use crate::schedule::SkipReason;

use super::axis::{Axis, Place, WHOLE};
use super::detail::Row;
use super::frame::{backdrop, COLUMNS};
use super::marks;
use super::rows::Schedule;
use super::verdict::Verdict;
use super::wording::{counted, number, word};

/// From so many rows on, a row is one line of text.
const COMPACT: usize = 60;
/// Labels above the axis that are closer together than this would overlap.
const APART: i64 = 1_500;

/// True where rows are low, so that many fit on a screen.
pub(super) const fn is_compact(rows: usize) -> bool {
    rows > COMPACT
}

/// Writes the table with its axis and what lies behind.
pub(super) fn draw(out: &mut String, rows: &[Row<'_>], axis: &Axis<'_>) {
    let compact = is_compact(rows.len());
    let (scroll, class) = if compact { ("scroll tall", "grid compact") } else { ("scroll", "grid") };
    let _ = write!(out, r#"<div class="{scroll}"><div class="{class}">"#);
    backdrop(out, axis);
    let _ = write!(
        out,
        r#"<table><caption class="sr">What became of each plan time, by schedule</caption>{COLUMNS}<thead><tr><th scope="col">Schedule</th><th scope="col">Plan times</th><th scope="col" class="t">"#
    );
    header(out, axis);
    out.push_str("</th></tr></thead>");
    let urgent = rows.iter().take_while(|row| row.urgency != 0).count();
    let (look, rest) = rows.split_at(urgent);
    for (rows, class, title) in [(look, "look", "Needs a look"), (rest, "rest", "As planned")] {
        if rows.is_empty() {
            continue;
        }
        let of = number(rows.len() as u64);
        let _ = write!(
            out,
            r#"<tbody class="{class}"><tr class="group"><th colspan="2" scope="rowgroup">{title} <b>{of}</b></th><td></td></tr>"#
        );
        for row in rows {
            draw_row(out, row, axis, compact);
        }
        out.push_str("</tbody>");
    }
    out.push_str("</table></div></div>");
}

/// The labels of the axis.
fn header(out: &mut String, axis: &Axis<'_>) {
    out.push_str(r#"<svg class="axis" role="img" aria-label="time axis">"#);
    for tick in axis.ticks() {
        if let Some(label) = tick.label {
            let class = if tick.is_strong { r#" class="day""# } else { "" };
            let _ = write!(out, r#"<text x="{}" y="30"{class}>{label}</text>"#, tick.place);
        }
    }
    let mut taken = Vec::new();
    if axis.shows(axis.view.now) {
        let place = axis.place(axis.view.now);
        taken.push(place.0);
        let _ = write!(
            out,
            r#"<text x="{place}" y="13" class="nowt"{}>now {}</text>"#,
            anchor(place),
            axis.wall.reading(axis.view.now).time_of_minute()
        );
    }
    for change in axis.changes() {
        let place = axis.clipped(change.at);
        // Beside what is there already, if it were to stand on it.
        let free = |place: &i64| taken.iter().all(|other: &i64| (other - place).abs() >= APART);
        let beside = [place.0, place.0 + APART, place.0 - APART, place.0 + 3 * APART / 2, place.0 - 3 * APART / 2];
        if let Some(place) = beside.into_iter().filter(|place| (0..=WHOLE).contains(place)).find(free) {
            taken.push(place);
            let place = Place(place);
            let _ = write!(
                out,
                r#"<text x="{place}" y="13" class="dstt"{}>clocks {}</text>"#,
                anchor(place),
                change.amount()
            );
        }
    }
    out.push_str("</svg>");
}

/// A label in the middle of its place, but not over the edge.
fn anchor(place: Place) -> &'static str {
    match place.0 {
        ..700 => r#" style="text-anchor:start""#,
        700..=9_300 => "",
        _ => r#" style="text-anchor:end""#,
    }
}

fn draw_row(out: &mut String, row: &Row<'_>, axis: &Axis<'_>, compact: bool) {
    let schedule = row.schedule;
    let _ = write!(out, r#"<tr data-schedule="{}"><th scope="row""#, schedule.name.escaped());
    if schedule.name.is_long() {
        let _ = write!(out, r#" title="{}""#, schedule.name.escaped());
    }
    let _ = write!(out, ">{}", schedule.name.shortened());
    if row.has_alert {
        out.push_str(r#"<em class="state failing">alert</em>"#);
    }
    let state = schedule.state.as_str();
    if !matches!(state, "armed" | "waiting" | "arming") {
        let _ = write!(out, r#"<em class="state {0}">{0}</em>"#, word(state));
    }
    if !compact {
        let _ = write!(out, "<small>{}", schedule.clock.shortened());
        if schedule.time_zone != axis.view.time_zone {
            let _ = write!(out, ", {}", schedule.time_zone.shortened());
        }
        out.push_str("</small>");
    }
    out.push_str("</th><td>");
    counts(out, row, compact);
    if !compact {
        let planned = match row.counts[Verdict::Planned.index()] {
            0 => None,
            count => Some(format!("{} planned", number(count))),
        };
        let next = schedule.next_plan_time.filter(|next| *next > axis.view.now);
        let next = next.map(|next| format!("next {}", axis.wall.soon(next, axis.view.now)));
        let both: Vec<String> = planned.into_iter().chain(next).collect();
        if !both.is_empty() {
            let _ = write!(out, "<small>{}</small>", both.join(", "));
        }
    }
    out.push_str(r#"</td><td class="t"><svg aria-hidden="true"><g>"#);
    marks::draw(out, row, axis);
    out.push_str("</g></svg></td></tr>");
}

/// `1 failed, 22 ran`; in a low row not why something was skipped.
fn counts(out: &mut String, row: &Row<'_>, compact: bool) {
    let reasons = if compact { Vec::new() } else { reasons(row) };
    let mut is_first = true;
    for verdict in Verdict::ALL {
        let count = row.counts[verdict.index()];
        if count == 0 || *verdict == Verdict::Planned {
            continue;
        }
        out.push_str(if is_first { "" } else { ", " });
        is_first = false;
        let words = format!("{} {}", number(count), verdict.as_str());
        if verdict.is_fault() {
            let _ = write!(out, r#"<b class="{}">{words}</b>"#, verdict.symbol());
        } else {
            out.push_str(&words);
        }
        if *verdict == Verdict::Skipped {
            let list: Vec<String> = match &reasons[..] {
                [] => Vec::new(),
                [(reason, _)] => vec![reason.as_str().to_owned()],
                [..] => reasons.iter().map(|(reason, count)| format!("{count} {}", reason.as_str())).collect(),
            };
            if !list.is_empty() {
                let _ = write!(out, " ({})", list.join(", "));
            }
        }
    }
    if is_first {
        let planned = row.counts[Verdict::Planned.index()] != 0;
        out.push_str(if planned { "none yet" } else { "no plan time" });
    }
}

/// Why plan times of a row were skipped, and how many of each.
fn reasons(row: &Row<'_>) -> Vec<(SkipReason, u64)> {
    let mut reasons: Vec<(SkipReason, u64)> = Vec::new();
    for mark in &row.marks {
        if let Some(reason) = mark.reason {
            match reasons.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, count)) => *count = count.saturating_add(mark.count.max(1)),
                None => reasons.push((reason, mark.count.max(1))),
            }
        }
    }
    reasons
}

/// How urgent a schedule is: failures count most, then what is late, then what nobody wanted to be skipped.
pub(super) fn urgency(schedule: &Schedule, axis: &Axis<'_>, has_alert: bool) -> u64 {
    const FACTOR: u64 = 1 << 20;
    let mut weights = [0_u64; 3];
    for mark in schedule.marks.iter().filter(|mark| axis.shows(mark.first) && axis.shows(mark.last)) {
        let Some(concern) = mark.concern() else { continue };
        let kind = concern as usize;
        weights[kind] = weights[kind].saturating_add(mark.count.max(1)).min(FACTOR - 1);
    }
    let [skipped, late, failed] = weights;
    let is_broken = has_alert || matches!(schedule.state.as_str(), "parked" | "failing");
    (u64::from(is_broken) << 60) | failed << 40 | late << 20 | skipped
}

/// `62 schedules`, and how many of them somebody should look at.
pub(super) fn headline(rows: &[Row<'_>]) -> String {
    let urgent = rows.iter().filter(|row| row.urgency != 0).count() as u64;
    let all = counted(rows.len() as u64, "schedule");
    match (rows.len(), urgent) {
        (0, _) => "No schedule here".to_owned(),
        (1, 0) => "The schedule runs as planned".to_owned(),
        (_, 0) => format!("All {all} run as planned"),
        (1, _) => "The schedule needs a look".to_owned(),
        (_, 1) => format!("1 of {all} needs a look"),
        (_, _) => format!("{} of {all} need a look", number(urgent)),
    }
}
