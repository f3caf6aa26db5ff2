//! What went wrong, newest first, as a list: for whoever cannot see the picture, and for whoever will mend it.

use std::fmt::Write as _;

use super::axis::Axis;
use super::detail::Row;
use super::rows::Mark;
use super::wording::number;

/// How many the list has.
const MOST: usize = 100;

/// Writes the list; nothing where nothing went wrong.
pub(super) fn draw(out: &mut String, rows: &[Row<'_>], axis: &Axis<'_>) {
    let mut faults: Vec<(&Mark, &Row<'_>)> = rows
        .iter()
        .flat_map(|row| row.marks.iter().filter(|mark| mark.concern().is_some()).map(move |mark| (*mark, row)))
        .collect();
    if faults.is_empty() {
        return;
    }
    faults.sort_by(|(a, a_row), (b, b_row)| {
        b.last.cmp(&a.last).then_with(|| a_row.schedule.name.cmp(&b_row.schedule.name))
    });
    out.push_str(r#"<section class="card"><h2>What went wrong</h2><div class="list"><table class="plain"><thead><tr><th scope="col">Plan time</th><th scope="col">Schedule</th><th scope="col">What became of it</th></tr></thead><tbody>"#);
    for (mark, row) in faults.iter().take(MOST) {
        let _ = write!(out, "<tr><td>{}", axis.wall.moment(mark.first));
        if mark.last != mark.first {
            let _ = write!(out, " to {}", axis.wall.moment(mark.last));
        }
        let _ = write!(
            out,
            r##"</td><td>{}</td><td><svg class="key" aria-hidden="true"><use href="#{}" x="9" y="9"/></svg>{}</td></tr>"##,
            row.schedule.name.shortened(),
            mark.verdict.symbol(),
            mark.words(axis.view.now)
        );
    }
    out.push_str("</tbody></table></div>");
    if let Some(more) = faults.len().checked_sub(MOST).filter(|more| *more != 0) {
        let _ = write!(out, "<p>and {} older</p>", number(more as u64));
    }
    out.push_str("</section>");
}
