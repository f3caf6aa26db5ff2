//! The columns of a table with a time axis, and the picture behind its rows.

use std::fmt::Write as _;

use super::axis::{Axis, Place};

/// The columns of every table with a time axis.
pub(super) const COLUMNS: &str = r#"<colgroup><col class="c1"/><col class="c2"/><col/></colgroup>"#;

/// Behind the rows: lines at round times, bands where the clocks change, and now.
pub(super) fn backdrop(out: &mut String, axis: &Axis<'_>) {
    out.push_str(r#"<div class="back" aria-hidden="true"><svg>"#);
    for tick in axis.ticks() {
        let class = if tick.is_strong { "day" } else { "hour" };
        let _ = write!(out, r#"<line class="{class}" x1="{0}" x2="{0}" y2="100%"/>"#, tick.place);
    }
    for change in axis.changes() {
        let (from, to) = change.band(axis);
        let width = Place((to.0 - from.0).max(20));
        let before = change.at.just_before();
        let _ = write!(
            out,
            r#"<rect class="dst" x="{from}" width="{width}" height="100%"><title>clocks change by {}: {} becomes {}</title></rect>"#,
            change.amount(),
            axis.wall.reading(before).offset(),
            axis.wall.reading(change.at).offset()
        );
    }
    if axis.shows(axis.view.now) {
        let _ = write!(out, r#"<line class="now" x1="{0}" x2="{0}" y2="100%"/>"#, axis.place(axis.view.now));
    }
    out.push_str("</svg></div>");
}
