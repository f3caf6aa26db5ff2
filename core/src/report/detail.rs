//! How much of each row is drawn by itself. Neighbours that nobody could tell apart become one piece with a count, and
//! so does what would make the page too large: rows are aggregated, never refused.
//!
//! A row is drawn in the finest way that can be read: each plan time; runs of evenly spaced plan times with one verdict;
//! or cells of time, in which each verdict has its share of the height. A page that grows too large makes the rows
//! coarser step by step, those first in which nothing went wrong.

use crate::schedule::SkipReason;
use crate::time::Instant;

use super::axis::{Axis, Place, WHOLE};
use super::rows::{Mark, Run, Schedule};
use super::verdict::Verdict;

/// Between two symbols, and between two ticks of a comb, in hundredths of a percent of the width.
pub(super) const SYMBOL: i64 = 75;
const TICK: i64 = 40;
/// What is closer together than this belongs together, however uneven.
const DENSE: i64 = 25;
/// Where rows are no longer made coarser, in bytes.
const LEAST_ROW: usize = 16;
/// So many times larger may a row be that somebody has to look at.
const LOOKED_AT: usize = 8;
/// At most so many stretches of planned times beside cells.
const MOST_EVEN: usize = 12;
/// A run that takes so much of the width has a bar also where plan times are drawn together.
const LONG: i64 = 50;

/// One thing to draw: a plan time, or neighbours of one verdict.
#[derive(Clone, Debug)]
pub(super) struct Piece<'a> {
    pub first: Instant,
    pub last: Instant,
    pub count: u64,
    pub verdict: Verdict,
    pub reason: Option<SkipReason>,
    /// They are about equally far apart, so that each can be shown as a tick.
    pub even: bool,
    /// Its part of a cell that it shares; `None` = the row is its own.
    pub share: Option<Share>,
    /// The plan time that it is, where it is one.
    pub mark: Option<&'a Mark>,
}

/// A part of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// The left edge of the cell.
    pub from: Place,
    /// The right edge.
    pub to: Place,
    /// Where it begins, from above, in percent of the height.
    pub top: u32,
    /// Its height, in percent.
    pub height: u32,
}

impl<'a> Piece<'a> {
    fn new(mark: &'a Mark) -> Self {
        Piece {
            first: mark.first,
            last: mark.last.max(mark.first),
            count: mark.count.max(1),
            verdict: mark.verdict,
            reason: mark.reason,
            even: false,
            share: None,
            mark: (mark.count <= 1).then_some(mark),
        }
    }

    fn key(&self) -> (Verdict, Option<SkipReason>) {
        (self.verdict, self.reason)
    }

    /// Takes what follows into this piece.
    fn extend(&mut self, next: &Piece<'a>, even: bool) {
        self.last = self.last.max(next.last);
        self.count = self.count.saturating_add(next.count);
        self.even = even;
        self.mark = None;
    }

    /// The microseconds from one of its plan times to the next, on average.
    fn gap(&self) -> Option<i64> {
        let gaps = i64::try_from(self.count - 1).ok().filter(|gaps| *gaps > 0)?;
        Some(self.last.as_micros().saturating_sub(self.first.as_micros()) / gaps)
    }

    /// The width from one of its plan times to the next, on average.
    pub fn pitch(&self, axis: &Axis<'_>) -> i64 {
        let gaps = i64::try_from(self.count.saturating_sub(1)).unwrap_or(i64::MAX).max(1);
        (axis.place(self.last).0 - axis.place(self.first).0) / gaps
    }

    /// True where each of its plan times gets a tick.
    pub fn is_comb(&self, axis: &Axis<'_>) -> bool {
        self.even && self.share.is_none() && self.pitch(axis) >= TICK
    }
}

/// How finely rows are drawn, the finest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Each mark.
    Each,
    /// Neighbours with one verdict and even gaps.
    Runs,
    /// So many cells at most, finer ones have smaller numbers here.
    Cells(u8),
}

/// The numbers of cells.
const CELLS: [i64; 7] = [96, 48, 24, 12, 6, 3, 1];
/// From this one of them on, what was skipped for several reasons is one piece that names none, and there are no tooltips.
const MIXED: usize = 3;

impl Level {
    fn coarser(self) -> Option<Level> {
        match self {
            Level::Each => Some(Level::Runs),
            Level::Runs => Some(Level::Cells(0)),
            Level::Cells(index) => (usize::from(index) + 1 < CELLS.len()).then_some(Level::Cells(index + 1)),
        }
    }

    fn cells(self) -> i64 {
        match self {
            Level::Each | Level::Runs => CELLS[0],
            Level::Cells(index) => CELLS.get(usize::from(index)).copied().unwrap_or(1),
        }
    }
}

/// A schedule with what is drawn of it.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub schedule: &'a Schedule,
    pub pieces: Vec<Piece<'a>>,
    /// How many plan times there are of each verdict, in the order of `Verdict::ALL`.
    pub counts: [u64; Verdict::COUNT],
    /// How urgently somebody should look at it; 0: not at all.
    pub urgency: u64,
    /// There is an open alert of it.
    pub has_alert: bool,
    /// In the order of time.
    pub marks: Vec<&'a Mark>,
    level: Level,
}

impl<'a> Row<'a> {
    /// True where a piece has a tooltip of its own; elsewhere the page's script makes one of the attributes.
    pub fn is_told(&self, piece: &Piece<'_>) -> bool {
        match self.level {
            Level::Each => true,
            Level::Runs => piece.verdict.is_fault(),
            Level::Cells(index) => piece.verdict.is_fault() && usize::from(index) < MIXED,
        }
    }

    /// The runs that get a bar: all, or where plan times are drawn together those that took long.
    pub fn runs(&self, axis: &Axis<'_>) -> impl Iterator<Item = (&'a Mark, &'a Run)> + use<'_, 'a> {
        let least = match self.level {
            Level::Each => Some(0),
            Level::Runs => Some(axis.span(LONG)),
            Level::Cells(_) => None,
        };
        let now = axis.view.now;
        self.marks.iter().filter_map(move |mark| {
            let run = mark.run.as_ref()?;
            let (first, last) = (run.attempts.first()?, run.attempts.last()?);
            let micros = last.ended_at.unwrap_or(now).as_micros().saturating_sub(first.started_at.as_micros());
            (micros >= least?).then_some((*mark, run))
        })
    }

    /// About how many bytes it takes.
    fn bytes(&self, axis: &Axis<'_>) -> usize {
        let bars: usize = self.runs(axis).map(|(_, run)| 60 + 50 * run.attempts.len()).sum();
        let piece = |piece: &Piece<'_>| match piece.mark {
            Some(_) => 85,
            None if piece.share.is_some() => 125,
            None => 105,
        };
        let title = |piece: &Piece<'_>| if self.is_told(piece) { 75 } else { 0 };
        bars + self.pieces.iter().map(|drawn| piece(drawn) + title(drawn)).sum::<usize>()
    }

    fn draw_at(&mut self, level: Level, axis: &Axis<'_>) {
        self.level = level;
        if level == Level::Each {
            // What the caller has counted belongs to what is beside it.
            let single = self.marks.iter().all(|mark| mark.count <= 1);
            if single && are_apart(self.marks.iter().map(|mark| (mark.first, mark.last)), SYMBOL, axis) {
                self.pieces = self.marks.iter().map(|mark| Piece::new(mark)).collect();
                return;
            }
            self.level = Level::Runs;
        }
        if self.level == Level::Runs {
            self.pieces = runs(&self.marks, axis);
            if are_apart(self.pieces.iter().map(|piece| (piece.first, piece.last)), SYMBOL / 2, axis) {
                return;
            }
            self.level = Level::Cells(0);
        }
        // What is planned lies as evenly as the clock has it; what has come does not.
        let (planned, come): (Vec<&Mark>, Vec<&Mark>) =
            self.marks.iter().partition(|mark| mark.verdict == Verdict::Planned);
        self.pieces = cells(&come, axis, self.level.cells());
        let even = runs(&planned, axis);
        let few = even.len() <= usize::try_from(self.level.cells()).unwrap_or(usize::MAX).min(MOST_EVEN);
        self.pieces.extend(if few { even } else { cells(&planned, axis, self.level.cells()) });
    }
}

/// Chooses what is drawn of each row, so that all of it takes about `budget` bytes.
pub(super) fn fit(rows: &mut [Row<'_>], axis: &Axis<'_>, budget: usize) {
    let mut sizes: Vec<usize> = rows
        .iter_mut()
        .map(|row| {
            row.draw_at(Level::Each, axis);
            row.bytes(axis)
        })
        .collect();
    let mut cap = sizes.iter().copied().max().unwrap_or(0);
    // The largest rows become coarser first, and of those that somebody has to look at only the much larger ones.
    while sizes.iter().sum::<usize>() > budget && cap > LEAST_ROW {
        cap = cap * 3 / 4;
        for (row, size) in rows.iter_mut().zip(&mut sizes) {
            let most = if row.urgency == 0 { cap } else { cap.saturating_mul(LOOKED_AT) };
            while *size > most {
                let Some(coarser) = row.level.coarser() else { break };
                row.draw_at(coarser, axis);
                *size = row.bytes(axis);
            }
        }
    }
}

impl<'a> Row<'a> {
    /// The row of a schedule, before anything is chosen.
    pub fn new(schedule: &'a Schedule, axis: &Axis<'_>, urgency: u64, has_alert: bool) -> Self {
        let mut marks: Vec<&Mark> =
            schedule.drawn().filter(|mark| axis.shows(mark.first) && axis.shows(mark.last)).collect();
        marks.sort_by_key(|mark| mark.first);
        let mut counts = [0_u64; Verdict::COUNT];
        for mark in &marks {
            let count = &mut counts[mark.verdict.index()];
            *count = count.saturating_add(mark.count.max(1));
        }
        Row { schedule, pieces: Vec::new(), counts, urgency, has_alert, marks, level: Level::Each }
    }
}

/// True where none lies on another, and no two narrow ones begin closer together than `least`; each is given by its
/// first and last time.
fn are_apart(ends: impl Iterator<Item = (Instant, Instant)>, least: i64, axis: &Axis<'_>) -> bool {
    let mut before: Option<(i64, i64)> = None;
    for (first, last) in ends {
        let (start, end) = (axis.place(first).0, axis.place(last).0);
        let is_wide = |start: i64, end: i64| end - start >= 2 * SYMBOL;
        let too_close = |(other, its_end): (i64, i64)| {
            start < its_end || (!is_wide(other, its_end) && !is_wide(start, end) && start - other < least)
        };
        if before.is_some_and(too_close) {
            return false;
        }
        before = Some((start, end));
    }
    true
}

/// Runs of one verdict whose plan times are evenly spaced, or too dense to tell.
fn runs<'a>(marks: &[&'a Mark], axis: &Axis<'_>) -> Vec<Piece<'a>> {
    let mut pieces: Vec<Piece<'a>> = Vec::new();
    let mut gap = None;
    for mark in marks {
        let next = Piece::new(mark);
        let Some(before) = pieces.last_mut().filter(|before| before.key() == next.key()) else {
            gap = None;
            pieces.push(next);
            continue;
        };
        let step = next.first.as_micros().saturating_sub(before.last.as_micros());
        // What the caller has counted is taken for even where what is beside it is as far apart.
        gap = gap.or_else(|| before.gap());
        // A day of 23 hours is as good as one of 24.
        let is_step = |gap: i64| (step.saturating_sub(gap)).saturating_abs().saturating_mul(20) <= step;
        let is_even = step > 0 && gap.is_none_or(is_step) && next.gap().is_none_or(is_step);
        // What went wrong keeps a symbol of its own as long as there is room.
        if is_even && !next.verdict.is_fault() && (before.mark.is_some() || before.even || gap == before.gap()) {
            gap = gap.or(Some(step));
            before.extend(&next, true);
        } else if axis.width(step) <= if next.verdict.is_fault() { SYMBOL } else { DENSE } {
            before.extend(&next, false);
        } else {
            gap = None;
            pieces.push(next);
        }
    }
    pieces
}

/// Cells of time: a verdict that is alone in its cell and in those beside it is one piece, others share the height.
fn cells<'a>(marks: &[&'a Mark], axis: &Axis<'_>, cells: i64) -> Vec<Piece<'a>> {
    let cell_of = |mark: &Mark| (axis.place(mark.first).0 * cells / WHOLE).min(cells - 1);
    let widest = WHOLE / cells * 2;
    let mixes = cells <= CELLS[MIXED];
    let mut pieces: Vec<Piece<'a>> = Vec::new();
    let mut parts: Vec<Piece<'a>> = Vec::new();
    for group in marks.chunk_by(|a, b| cell_of(a) == cell_of(b)) {
        for mark in group {
            let next = Piece::new(mark);
            match parts.iter_mut().find(|part| part.key() == next.key() || (mixes && part.verdict == next.verdict)) {
                Some(part) => {
                    part.reason = part.reason.filter(|reason| Some(*reason) == next.reason);
                    part.extend(&next, false);
                }
                None => parts.push(next),
            }
        }
        if let [alone] = &parts[..] {
            let goes_on = |before: &&mut Piece<'_>| {
                before.key() == alone.key()
                    && before.share.is_none()
                    && axis.place(alone.first).0 - axis.place(before.last).0 <= widest
            };
            if let Some(before) = pieces.last_mut().filter(goes_on) {
                before.extend(alone, false);
                parts.clear();
                continue;
            }
        } else if let Some(mark) = group.first() {
            let start = axis.place(mark.first).0;
            let end = (cell_of(mark) + 1) * WHOLE / cells;
            let last = parts.iter().map(|part| axis.place(part.last).0).max().unwrap_or(end);
            // A dense row has no gaps between its cells, one that ends within a cell ends where it ends.
            let end = if (0..=widest / 8).contains(&(end - last)) { end } else { last };
            share_height(&mut parts, Place(start), Place(end));
        }
        pieces.append(&mut parts);
    }
    pieces
}

/// Parts of one cell, from the loudest above; what there is little of is still seen.
fn share_height(parts: &mut [Piece<'_>], from: Place, to: Place) {
    let least = |part: &Piece<'_>| if part.verdict.is_fault() { 35 } else { 20 };
    parts.sort_by_key(|part| (part.verdict.index(), part.reason.map(|reason| reason as usize)));
    let total = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.count)).max(1);
    let wanted: Vec<u32> = parts
        .iter()
        .map(|part| {
            let percent = u128::from(part.count) * 100 / u128::from(total);
            u32::try_from(percent).unwrap_or(100).max(least(part))
        })
        .collect();
    let sum = wanted.iter().sum::<u32>().max(1);
    let mut top = 0;
    for (part, wanted) in parts.iter_mut().zip(wanted) {
        let height = wanted * 100 / sum;
        part.share = Some(Share { from, to, top, height });
        top += height;
    }
}
