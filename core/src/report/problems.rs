//! What is wrong and what went wrong, newest first, as lists: for whoever cannot see the picture, and for whoever will mend it.

use std::fmt::Write as _;

use super::axis::Axis;
use super::detail::Row;
use super::rows::{Cause, Mark};
use super::wording::number;

/// How many a list has.
const MOST: usize = 100;

/// Writes both lists; nothing where nothing is or went wrong.
pub(super) fn draw(out: &mut String, rows: &[Row<'_>], axis: &Axis<'_>) {
    let mut faults: Vec<(&Mark, &Row<'_>)> = rows
        .iter()
        .flat_map(|row| row.marks.iter().filter(|mark| mark.concern().is_some()).map(move |mark| (*mark, row)))
        .collect();
    faults.sort_by(|(a, a_row), (b, b_row)| {
        b.last.cmp(&a.last).then_with(|| a_row.schedule.name.cmp(&b_row.schedule.name))
    });
    let (now, before): (Vec<_>, Vec<_>) = faults.into_iter().partition(|(mark, _)| mark.is_open());
    let broken: Vec<&Row<'_>> =
        rows.iter().filter(|row| matches!(row.schedule.state.as_str(), "parked" | "failing")).collect();
    if !now.is_empty() || !broken.is_empty() {
        head(out, "What is wrong now", "wrong-now");
        for row in &broken {
            let what = if row.schedule.state == "parked" {
                "parked: it fires nothing"
            } else {
                "cannot be fired, and is tried again"
            };
            let why = row.schedule.last_error.as_ref().map_or_else(String::new, |error| error.isolated().to_string());
            let _ = write!(
                out,
                "<tr><td></td><td>{}</td><td>{what}</td><td>{why}</td></tr>",
                row.schedule.name.shortened()
            );
        }
        list(out, &now, axis);
    }
    if !before.is_empty() {
        head(out, "What went wrong", "went-wrong");
        list(out, &before, axis);
    }
}

fn head(out: &mut String, title: &str, class: &str) {
    let _ = write!(
        out,
        r#"<section class="card {class}"><h2>{title}</h2><div class="list"><table class="plain"><thead><tr><th scope="col">Plan time</th><th scope="col">Schedule</th><th scope="col">What became of it</th><th scope="col">Cause</th></tr></thead><tbody>"#
    );
}

fn list(out: &mut String, faults: &[(&Mark, &Row<'_>)], axis: &Axis<'_>) {
    for (mark, row) in faults.iter().take(MOST) {
        let _ = write!(out, "<tr><td>{}", axis.wall.moment(mark.first));
        if mark.last != mark.first {
            let _ = write!(out, " to {}", axis.wall.moment(mark.last));
        }
        let _ = write!(
            out,
            r##"</td><td>{}</td><td><svg class="key" aria-hidden="true"><use href="#{}" x="9" y="9"/></svg>{}</td><td>"##,
            row.schedule.name.shortened(),
            mark.verdict.symbol(),
            mark.words(axis.view.now)
        );
        if let Some(cause) = mark.run.as_ref().and_then(|run| run.cause.as_ref()) {
            out.push_str(&words(cause));
        }
        out.push_str("</td></tr>");
    }
    out.push_str("</tbody></table></div>");
    if let Some(more) = faults.len().checked_sub(MOST).filter(|more| *more != 0) {
        let _ = write!(out, "<p>and {} older</p>", number(more as u64));
    }
    out.push_str("</section>");
}

/// `smtp: connection refused`.
pub(super) fn words(cause: &Cause) -> String {
    match (cause.code.is_empty(), cause.message.is_empty()) {
        (true, true) => String::new(),
        (true, false) => cause.message.isolated().to_string(),
        (false, true) => format!("<b>{}</b>", cause.code.isolated()),
        (false, false) => format!("<b>{}</b>: {}", cause.code.isolated(), cause.message.isolated()),
    }
}
