//! How late runs began: a column for each stretch of time, a row for each class of lateness, darker where there are more.
//! It stands under the rows and has their time axis, so that a bad hour lines up with what was planned in it.

use std::fmt::Write as _;

use super::axis::{Axis, Place};
use super::frame;
use super::rows::{LatenessColumn, LATENESS_CLASSES};
use super::wording::number;

/// The names of the classes, from the least.
const CLASSES: [&str; LATENESS_CLASSES] =
    ["within 0.1 s", "within 1 s", "within 10 s", "within 1 min", "within 10 min", "over 10 min"];
/// How many shades there are.
const SHADES: u32 = 5;

/// Writes the heat map; the worst class is on top.
pub(super) fn draw(out: &mut String, columns: &[LatenessColumn], axis: &Axis<'_>, compact: bool) {
    let columns: Vec<&LatenessColumn> =
        columns.iter().filter(|column| column.to > axis.view.from && column.from < axis.view.to).collect();
    let total = |class: usize| columns.iter().fold(0_u64, |sum, column| sum.saturating_add(column.counts[class]));
    let most = columns.iter().flat_map(|column| column.counts).max().unwrap_or(0);
    out.push_str(r#"<section class="card"><h2>How late runs began</h2>"#);
    if most == 0 {
        out.push_str("<p>No run has begun in this time.</p></section>");
        return;
    }
    // The same columns as the rows above have.
    let _ = write!(out, r#"<div class="scroll"><div class="grid heat{}">"#, if compact { " compact" } else { "" });
    frame::backdrop(out, axis);
    let _ = write!(
        out,
        r#"<table><caption class="sr">Runs by how long after their plan time they began</caption>{}<thead class="sr"><tr><th scope="col">Began</th><th scope="col">Runs</th><th scope="col">When</th></tr></thead><tbody>"#,
        frame::COLUMNS
    );
    for (class, name) in CLASSES.iter().enumerate().rev() {
        let runs = number(total(class));
        let _ = write!(out, r#"<tr><th scope="row">{name}</th><td>{runs}</td><td class="t"><svg>"#);
        for column in columns.iter().filter(|column| column.counts[class] != 0) {
            let (from, to) = (axis.clipped(column.from), axis.clipped(column.to));
            let count = column.counts[class];
            let _ = write!(
                out,
                r#"<rect class="h{}" x="{from}" width="{}" height="100%"><title>{}: {} {name}</title></rect>"#,
                shade(count, most),
                Place((to.0 - from.0).max(10)),
                axis.wall.moment(column.from),
                number(count)
            );
        }
        out.push_str("</svg></td></tr>");
    }
    out.push_str("</tbody></table></div></div></section>");
}

/// 1 to `SHADES`, by the logarithm: one late run among a million is seen.
fn shade(count: u64, most: u64) -> u32 {
    let bits = |count: u64| u64::BITS - count.leading_zeros();
    (bits(count) * SHADES).div_ceil(bits(most).max(1)).clamp(1, SHADES)
}

#[cfg(test)]
mod tests {
    use super::shade;

    #[test]
    fn shades_grow_with_the_count() {
        assert_eq!([1, 2, 30, 1_000, 1_000_000].map(|count| shade(count, 1_000_000)), [1, 1, 2, 3, 5]);
        assert_eq!([1, 2].map(|count| shade(count, 2)), [3, 5]);
        assert_eq!(shade(1, 1), 5);
    }
}
