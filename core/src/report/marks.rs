//! The marks of one row: a symbol for a plan time, a comb or a block for many, and a bar for each run.
//!
//! All of it is drawn around a line at height 0, which the style sheet puts into the middle of the row: so a symbol
//! needs one coordinate, and a thousand rows stay small.

use std::fmt::Write as _;

use crate::keyword::Keyword;

use super::axis::{Axis, Place, WHOLE};
use super::detail::{Piece, Row, SYMBOL};
use super::rows::{Mark, Run};
use super::verdict::Verdict;

/// The least width that one sees, in hundredths of a percent.
const SEEN: i64 = 20;
/// A wait that is shorter than this is no line.
const WAIT: i64 = 30;
/// Heights, in pixels, of the lane in which verdicts share a cell.
const LANE: (i64, i64) = (-9, 18);

/// Writes the marks of a row: its runs first, and what went wrong above the rest.
pub(super) fn draw(out: &mut String, row: &Row<'_>, axis: &Axis<'_>) {
    for (mark, run) in row.runs(axis) {
        draw_run(out, mark, run, axis);
    }
    for verdict in Verdict::ALL.iter().rev() {
        for piece in row.pieces.iter().filter(|piece| piece.verdict == *verdict) {
            draw_piece(out, row, piece, axis);
        }
    }
}

/// The attributes by which scripts and tests find a mark.
fn attributes(out: &mut String, piece: &Piece<'_>, axis: &Axis<'_>) {
    let plan = axis.wall.reading(piece.first);
    let _ = write!(out, r#" data-verdict="{}" data-plan="{}""#, piece.verdict.as_str(), plan.iso());
    if piece.mark.is_none() {
        let _ = write!(out, r#" data-count="{}""#, piece.count);
    }
    if let Some(reason) = piece.reason {
        let _ = write!(out, r#" data-reason="{}""#, reason.as_str());
    }
}

fn draw_piece(out: &mut String, row: &Row<'_>, piece: &Piece<'_>, axis: &Axis<'_>) {
    let name = match (piece.mark, piece.share) {
        (_, None) if piece.mark.is_some() || is_loud_and_narrow(piece, axis) => draw_symbol(out, piece, axis),
        (_, Some(share)) => {
            let (start, width) = wide_enough(share.from, share.to);
            let (above, height) =
                (LANE.0 + LANE.1 * i64::from(share.top) / 100, LANE.1 * i64::from(share.height) / 100);
            out.push_str("<rect");
            attributes(out, piece, axis);
            let _ = write!(out, r#" x="{start}" width="{width}" y="{above}" height="{}""#, height.max(2));
            "rect"
        }
        (_, None) => draw_many(out, piece, axis),
    };
    if row.is_told(piece) {
        let words = match piece.mark {
            Some(mark) => mark.words(axis.view.now),
            None => many(piece).words(axis.view.now),
        };
        let _ = write!(out, "><title>{} {words}</title></{name}>", axis.wall.moment(piece.first));
    } else {
        out.push_str("/>");
    }
}

/// The plan times of a piece as a mark, which has the words for it.
fn many(piece: &Piece<'_>) -> Mark {
    Mark { reason: piece.reason, ..Mark::many(piece.first, piece.last, piece.count, piece.verdict) }
}

/// What went wrong is seen also where it is a thin block.
fn is_loud_and_narrow(piece: &Piece<'_>, axis: &Axis<'_>) -> bool {
    piece.verdict.is_fault() && axis.place(piece.last).0 - axis.place(piece.first).0 < SYMBOL
}

fn draw_symbol(out: &mut String, piece: &Piece<'_>, axis: &Axis<'_>) -> &'static str {
    let _ = write!(out, r##"<use href="#{}""##, piece.verdict.symbol());
    attributes(out, piece, axis);
    let middle = (axis.clipped(piece.first).0 + axis.clipped(piece.last).0) / 2;
    let _ = write!(out, r#" x="{}""#, Place(middle));
    "use"
}

/// A comb with a tick for each plan time, or a block.
fn draw_many(out: &mut String, piece: &Piece<'_>, axis: &Axis<'_>) -> &'static str {
    out.push_str("<line");
    attributes(out, piece, axis);
    let (first, last) = (axis.clipped(piece.first), axis.clipped(piece.last));
    if piece.is_comb(axis) {
        // A dash is as long as a pitch, and begins with the tick; the first tick stands over its plan time.
        let pitch = piece.pitch(axis);
        let (class, tick) = match pitch {
            ..80 => ("k1", 50),
            80..200 => ("k2", 30),
            200..500 => ("k3", 12),
            500..1_500 => ("k4", 5),
            _ => ("k5", 2),
        };
        let half = pitch * tick / 200;
        let (start, end, dashes) = (Place(first.0 - half), Place(last.0 + half), piece.count - 1);
        let _ = write!(out, r#" class="{class}" pathLength="{dashes}.{tick:02}" x1="{start}" x2="{end}""#);
    } else {
        let (start, width) = wide_enough(first, last);
        let _ = write!(out, r#" x1="{start}" x2="{}""#, Place(start.0 + width.0));
    }
    "line"
}

/// Start and width, at least as wide as one sees, and within the axis.
fn wide_enough(from: Place, to: Place) -> (Place, Place) {
    let width = (to.0 - from.0).max(SEEN);
    (Place(from.0.min(WHOLE - width)), Place(width))
}

/// A thin line from the plan time to the end, and a bar for each attempt.
fn draw_run(out: &mut String, mark: &Mark, run: &Run, axis: &Axis<'_>) {
    let Some(last) = run.attempts.last() else { return };
    let plan = axis.clipped(mark.first);
    let end = axis.clipped(last.ended_at.unwrap_or(axis.view.now));
    let bars: Vec<_> = run
        .attempts
        .iter()
        .map(|attempt| {
            let to = attempt.ended_at.unwrap_or(axis.view.now);
            (attempt, axis.clipped(attempt.started_at), axis.clipped(to))
        })
        .collect();
    let mut busy = plan.0;
    let waited = bars.iter().any(|(_, from, to)| {
        let gap = from.0 - busy;
        busy = to.0;
        gap > WAIT
    });
    if waited {
        let _ = write!(out, r#"<line class="wait" x1="{plan}" x2="{end}"/>"#);
    }
    for (attempt, from, to) in bars {
        let (start, width) = wide_enough(from, to);
        let long = if run.is_long && std::ptr::eq(attempt, last) { " long" } else { "" };
        let end = Place(start.0 + width.0);
        let _ = write!(out, r#"<line class="run {}{long}" x1="{start}" x2="{end}"/>"#, attempt.class());
    }
}
