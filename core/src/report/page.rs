//! The whole page: one file, no network, readable without its script.
//!
//! It is well-formed XML as well as HTML, so that any parser can check it. All that a user wrote is a `UserText`.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::clock::zone::Zone;
use crate::keyword::Keyword;

use super::axis::Axis;
use super::detail::{self, Row};
use super::rows::{Alert, Report};
use super::user_text::to_ascii;
use super::verdict::Verdict;
use super::wall::Wall;
use super::wording::number;
use super::{grid, lateness, load, problems, side};

/// What a page is meant to stay under, in bytes, and what of it is neither rows nor marks.
const MOST_BYTES: usize = 570_000;
const FRAME_BYTES: usize = 60_000;
/// Besides its name a row has so many bytes.
const ROW_BYTES: usize = 150;
/// However long the names are, marks have so many bytes.
const LEAST_FOR_MARKS: usize = 100_000;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const SYMBOLS: &str = include_str!("symbols.svg");

/// Draws the page of a report; `zone` is that of its labels.
#[must_use]
pub fn page(report: &Report, zone: &dyn Zone) -> String {
    let wall = Wall::new(&zone, report.view.now);
    let axis = Axis::new(&report.view, &wall);
    let rows = rows(report, &axis);

    let mut out = String::with_capacity(MOST_BYTES);
    let title = report.title.escaped();
    let _ = write!(
        out,
        r#"<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/><meta name="color-scheme" content="light dark"/><title>Schedules of {title}</title><style>{STYLE}</style></head><body>
{SYMBOLS}<header>"#
    );
    header(&mut out, report, &rows, &axis);
    out.push_str("</header><main>");
    side::draw(&mut out, &report.health, report.alerts.as_deref(), &axis);
    out.push_str(r#"<section class="card wide"><h2 class="sr">Schedules</h2>"#);
    legend(&mut out, &rows, &axis);
    if rows.is_empty() {
        out.push_str("<p>There is no schedule, or none that you may see.</p>");
    } else {
        grid::draw(&mut out, &rows, &axis);
    }
    out.push_str("</section>");
    lateness::draw(&mut out, &report.lateness, &axis, grid::is_compact(rows.len()));
    load::draw(&mut out, &report.load, &report.view, &wall);
    problems::draw(&mut out, &rows, &axis);
    let _ = writeln!(out, "</main><script>{SCRIPT}</script></body></html>");
    if report.view.ascii_only {
        to_ascii(&out)
    } else {
        out
    }
}

/// The rows in the order in which they are drawn: what is wrong first.
fn rows<'a>(report: &'a Report, axis: &Axis<'_>) -> Vec<Row<'a>> {
    let open = |alert: &&Alert| alert.resolved_at.is_none();
    let alerted: HashSet<&str> =
        report.alerts.iter().flatten().filter(open).map(|alert| alert.schedule_name.key()).collect();
    let mut rows: Vec<Row<'_>> = report
        .schedules
        .iter()
        .map(|schedule| {
            let has_alert = alerted.contains(schedule.name.key());
            Row::new(schedule, axis, grid::urgency(schedule, axis, has_alert), has_alert)
        })
        .collect();
    rows.sort_by(|a, b| b.urgency.cmp(&a.urgency).then_with(|| a.schedule.name.cmp(&b.schedule.name)));
    let compact = grid::is_compact(rows.len());
    let row_bytes = |row: &Row<'_>| {
        let shown = if compact { 0 } else { row.schedule.clock.bytes().min(200) + 60 };
        ROW_BYTES + 2 * row.schedule.name.bytes() + shown
    };
    let frames = FRAME_BYTES + rows.iter().map(row_bytes).sum::<usize>();
    detail::fit(&mut rows, axis, MOST_BYTES.saturating_sub(frames).max(LEAST_FOR_MARKS));
    rows
}

fn header(out: &mut String, report: &Report, rows: &[Row<'_>], axis: &Axis<'_>) {
    let view = &report.view;
    let _ = write!(
        out,
        "<h1>{}</h1><p>Database {} on {}, as of {}. It shows {} \u{2013} {}, in the zone {} ({}).",
        grid::headline(rows),
        report.title.isolated(),
        report.server.isolated(),
        axis.wall.moment(view.now),
        axis.wall.moment(view.from),
        axis.wall.moment(view.to),
        view.time_zone.isolated(),
        axis.wall.reading(view.now).offset()
    );
    if let Some(like) = &report.like {
        let _ = write!(out, " Only schedules like <b>{}</b>.", like.isolated());
    }
    out.push_str("</p>");
}

/// What the symbols mean, each with its number.
fn legend(out: &mut String, rows: &[Row<'_>], axis: &Axis<'_>) {
    out.push_str(r#"<ul class="legend">"#);
    for verdict in Verdict::ALL {
        let count = rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.counts[verdict.index()]));
        let class = if count == 0 { r#" class="none""# } else { "" };
        let _ = write!(
            out,
            r##"<li{class} data-of="{1}"><svg class="key" aria-hidden="true"><use href="#{0}" x="9" y="9"/></svg>{1} <b>{2}</b></li>"##,
            verdict.symbol(),
            verdict.as_str(),
            number(count)
        );
    }
    if rows.iter().any(|row| row.runs(axis).next().is_some()) {
        for (class, name) in [
            ("run s", "run"),
            ("run s long", "run longer than its max_duration"),
            ("run f", "failed attempt"),
            ("wait", "wait before a run, or between attempts"),
        ] {
            let _ = write!(
                out,
                r#"<li class="none"><svg class="key" aria-hidden="true"><line class="{class}" x1="1" x2="17" y1="-6" y2="-6"/></svg>{name}</li>"#
            );
        }
    }
    out.push_str("</ul>");
}
