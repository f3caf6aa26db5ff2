//! The load to come: how many plan times each hour has, as bars.

use std::fmt::Write as _;

use super::axis::{Axis, Place, WHOLE};
use super::rows::{LoadHour, View};
use super::wall::Wall;
use super::wording::{counted, number};

/// The height of the highest bar, and of the room above it, in pixels.
const HEIGHT: u64 = 80;
const ABOVE: u64 = 16;
const HOUR: i64 = 3_600_000_000;

/// Writes the bars, a line at the highest, and the same as a sentence.
pub(super) fn draw(out: &mut String, load: &[LoadHour], view: &View, wall: &Wall<'_>) {
    out.push_str(r#"<section class="card"><h2>Load to come, by hour</h2>"#);
    let mut hours: Vec<LoadHour> = load.to_vec();
    hours.sort_by_key(|hour| hour.from);
    let most = hours.iter().map(|hour| hour.count).max().unwrap_or(0);
    let total = hours.iter().fold(0_u64, |sum, hour| sum.saturating_add(hour.count));
    let (Some(first), Some(last), Some(busiest)) =
        (hours.first(), hours.last(), hours.iter().find(|h| h.count == most))
    else {
        out.push_str("<p>Nothing is planned.</p></section>");
        return;
    };
    if most == 0 {
        out.push_str("<p>Nothing is planned.</p></section>");
        return;
    }
    let end = last.from.checked_add_micros(HOUR).unwrap_or(last.from);
    let view = View { from: first.from, to: end, ..view.clone() };
    let axis = Axis::new(&view, wall);
    let _ = write!(
        out,
        "<p>{} to come; the busiest hour is {} with {}.</p>",
        counted(total, "plan time"),
        wall.moment(busiest.from),
        number(most)
    );
    let (height, ground) = (HEIGHT + ABOVE + 20, HEIGHT + ABOVE);
    let _ = write!(out, r#"<svg class="load" height="{height}" aria-hidden="true">"#);
    for tick in axis.ticks() {
        let _ = write!(out, r#"<line class="hour" x1="{0}" x2="{0}" y1="{ABOVE}" y2="{ground}"/>"#, tick.place);
        if let Some(label) = tick.label {
            let _ = write!(out, r#"<text x="{}" y="{}">{label}</text>"#, tick.place, ground + 15);
        }
    }
    let wide = (WHOLE / i64::try_from(hours.len()).unwrap_or(1)).max(4);
    for hour in hours.iter().filter(|hour| hour.count != 0) {
        let place = axis.clipped(hour.from);
        let width = axis.width(HOUR).min(wide * 2).max(4);
        // In the width of a bar there is a gap to the next.
        let (x, width) = (Place(place.0 + width / 12), Place(width - width / 6));
        let bar =
            u64::try_from((u128::from(hour.count) * u128::from(HEIGHT)).div_ceil(u128::from(most))).unwrap_or(HEIGHT);
        let class = if hour.from == busiest.from { r#" class="peak""# } else { "" };
        let _ = write!(
            out,
            r#"<rect{class} x="{x}" width="{width}" y="{}" height="{bar}"><title>{}: {}</title></rect>"#,
            ground - bar,
            wall.moment(hour.from),
            number(hour.count)
        );
    }
    let place = axis.clipped(busiest.from);
    let (place, anchor) = match place.0 {
        ..300 => (place, "start"),
        300..=9_700 => (Place(place.0 + axis.width(HOUR) / 2), "middle"),
        _ => (Place(WHOLE), "end"),
    };
    let _ =
        write!(out, r#"<text class="peakt" x="{place}" y="11" style="text-anchor:{anchor}">{}</text>"#, number(most));
    let _ = write!(out, r#"<line class="ground" x2="100%" y1="{ground}" y2="{ground}"/></svg></section>"#);
}
