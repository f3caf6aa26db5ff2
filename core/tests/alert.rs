//! Which alerts a schedule calls for, by what is so.
#![allow(clippy::unwrap_used)]

use scheduler_core::alert::{judge, End, Kind, Limits, Open, Run, Situation, Stage, State, Transition};
use scheduler_core::Instant;

/// Seconds after some moment.
fn at(seconds: f64) -> Instant {
    Instant::from_micros((seconds * 1e6) as i64).unwrap()
}

fn calm() -> Situation<'static> {
    Situation {
        now: at(1000.0),
        limits: Limits::default(),
        state: State::Fires,
        edited_at: at(0.0),
        coming: &[],
        waits: false,
        last_success: None,
        runs: &[],
        ends: &[],
        open: &[],
    }
}

fn run(id: u128, planned: f64, stage: Stage) -> Run {
    Run { id, plan_time: at(planned), stage }
}

fn open(kind: Kind, since: f64, plan: Option<f64>, run: Option<u128>) -> Open {
    Open { kind, since: at(since), plan_time: plan.map(at), run }
}

fn end(id: u128, ended: f64, is_success: bool) -> End {
    End { id, plan_time: at(ended - 1.0), at: at(ended), is_success }
}

/// What becomes of alerts as a line: `+late`, `-late`.
fn changes(of: &Situation<'_>) -> String {
    let word = |transition: &Transition| match transition {
        Transition::Opens(open) => format!("+{}", scheduler_core::Keyword::as_str(open.kind)),
        Transition::Resolves(kind) => format!("-{}", scheduler_core::Keyword::as_str(*kind)),
    };
    judge(of).0.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// In how many seconds to look again.
fn next(of: &Situation<'_>) -> Option<f64> {
    judge(of).1.map(|next| (next.as_micros() - of.now.as_micros()) as f64 / 1e6)
}

fn late_after(seconds: i64) -> Limits {
    Limits { max_lateness: Some(seconds * 1_000_000), ..Limits::default() }
}

fn long_after(seconds: i64) -> Limits {
    Limits { max_duration: Some(seconds * 1_000_000), ..Limits::default() }
}

fn success_within(seconds: i64) -> Limits {
    Limits { expect_success_within: Some(seconds * 1_000_000), ..Limits::default() }
}

#[test]
fn a_schedule_that_asks_for_nothing_is_not_looked_at() {
    let runs = [run(1, 0.0, Stage::New), run(2, 0.0, Stage::Runs(at(0.0)))];
    let of = Situation { runs: &runs, coming: &[at(2000.0)], ..calm() };
    assert_eq!((changes(&of), next(&of)), (String::new(), None));
}

#[test]
fn a_run_is_late_from_its_limit_on_until_it_begins() {
    let limits = late_after(60);
    for (planned, stage, expected) in [
        (940.0, Stage::New, "+late"),
        (940.1, Stage::New, ""),
        (900.0, Stage::Waits, ""),
        (900.0, Stage::Runs(at(1000.0)), ""),
    ] {
        let runs = [run(1, planned, stage)];
        assert_eq!(changes(&Situation { limits, runs: &runs, ..calm() }), expected, "{planned} {stage:?}");
    }
    // Not before it can be so: of what runs, and of what comes.
    let runs = [run(1, 950.0, Stage::New), run(2, 945.0, Stage::New)];
    assert_eq!(next(&Situation { limits, runs: &runs, coming: &[at(1500.0)], ..calm() }), Some(5.0));
    assert_eq!(next(&Situation { limits, coming: &[at(1500.0)], ..calm() }), Some(560.0));
    // Unfired, it is late as well; and fired meanwhile it stays the same alert.
    assert_eq!(changes(&Situation { limits, coming: &[at(900.0)], ..calm() }), "+late");
    let (alert, runs) = ([open(Kind::Late, 960.0, Some(900.0), None)], [run(1, 900.0, Stage::New)]);
    assert_eq!(changes(&Situation { limits, runs: &runs, open: &alert, ..calm() }), "");
    // It begins, another one is late: that is another alert, about the oldest.
    let runs = [run(1, 900.0, Stage::Runs(at(999.0))), run(3, 902.0, Stage::New), run(2, 901.0, Stage::New)];
    let of = Situation { limits, runs: &runs, open: &alert, ..calm() };
    let (transitions, _) = judge(&of);
    assert_eq!(
        transitions,
        [Transition::Resolves(Kind::Late), Transition::Opens(open(Kind::Late, 961.0, Some(901.0), Some(2)))]
    );
    // Gone, cancelled, or no longer asked for.
    assert_eq!(changes(&Situation { limits, open: &alert, ..calm() }), "-late");
    let runs = [run(1, 900.0, Stage::New)];
    assert_eq!(changes(&Situation { runs: &runs, open: &alert, ..calm() }), "-late");
}

#[test]
fn a_run_is_long_while_it_goes_on() {
    let limits = long_after(60);
    let runs = [run(1, 0.0, Stage::Runs(at(940.0)))];
    assert_eq!(changes(&Situation { limits, runs: &runs, ..calm() }), "+long");
    let runs = [run(1, 0.0, Stage::Runs(at(970.0)))];
    let of = Situation { limits, runs: &runs, ..calm() };
    assert_eq!((changes(&of), next(&of)), (String::new(), Some(30.0)));
    // What has not begun cannot be long sooner.
    for stage in [Stage::New, Stage::Waits] {
        let runs = [run(1, 0.0, stage)];
        assert_eq!(next(&Situation { limits, runs: &runs, ..calm() }), Some(60.0));
    }
    assert_eq!(next(&Situation { limits, waits: true, ..calm() }), Some(60.0));
    assert_eq!(next(&Situation { limits, coming: &[at(1100.0)], ..calm() }), Some(160.0));
    let alert = [open(Kind::Long, 900.0, Some(0.0), Some(1))];
    assert_eq!(changes(&Situation { limits, open: &alert, ..calm() }), "-long");
    let runs = [run(2, 0.0, Stage::Runs(at(930.0)))];
    assert_eq!(changes(&Situation { limits, runs: &runs, open: &alert, ..calm() }), "-long +long");
}

#[test]
fn a_success_is_expected_from_the_last_one_or_the_last_edit_on() {
    let limits = success_within(100);
    for (edited, success, expected, waits) in [
        (0.0, None, "+no_success", None),
        (950.0, None, "", Some(50.0)),
        (0.0, Some(990.0), "", Some(90.0)),
        (910.0, Some(800.0), "", Some(10.0)),
        (800.0, Some(900.0), "+no_success", None),
    ] {
        let of = Situation { limits, edited_at: at(edited), last_success: success.map(at), ..calm() };
        assert_eq!(changes(&of), expected, "{edited} {success:?}");
        if waits.is_some() {
            assert_eq!(next(&of), waits, "{edited} {success:?}");
        }
    }
    let alert = [open(Kind::NoSuccess, 900.0, None, None)];
    let of = Situation { limits, open: &alert, last_success: Some(at(999.0)), ..calm() };
    assert_eq!(changes(&of), "-no_success");
    assert_eq!(changes(&Situation { limits, open: &alert, edited_at: at(999.0), ..calm() }), "-no_success");
    assert_eq!(changes(&Situation { limits, open: &alert, ..calm() }), "");
}

#[test]
fn a_failure_is_open_until_the_next_success() {
    let alert = [open(Kind::Failed, 990.0, Some(989.0), Some(1))];
    for (open, ends, last_success, expected) in [
        (&[][..], vec![end(1, 990.0, false)], None, "+failed"),
        (&[], vec![end(1, 990.0, false), end(2, 991.0, false)], None, "+failed"),
        (&[], vec![end(1, 990.0, true)], None, ""),
        // Each failure that a success follows is told, and resolved.
        (&[], vec![end(2, 992.0, true), end(1, 990.0, false), end(3, 994.0, false)], None, "+failed -failed +failed"),
        (&[], vec![end(1, 990.0, false)], Some(at(991.0)), "+failed -failed"),
        (&[], vec![end(1, 990.0, false)], Some(at(989.0)), "+failed"),
        (&alert, vec![end(2, 991.0, false)], None, ""),
        (&alert, vec![end(2, 989.0, true)], None, ""),
        (&alert, vec![end(2, 991.0, true)], None, "-failed"),
        (&alert, vec![], Some(at(995.0)), "-failed"),
    ] {
        assert_eq!(changes(&Situation { open, ends: &ends, last_success, ..calm() }), expected, "{open:?} {ends:?}");
    }
    // Nobody looks for the success of a run that has not been fired.
    let of = Situation { open: &alert, coming: &[at(1400.0)], ..calm() };
    assert_eq!(next(&of), Some(401.0));
    let runs = [run(2, 999.0, Stage::New)];
    assert_eq!(next(&Situation { runs: &runs, ..of }), Some(1.25));
}

#[test]
fn what_cannot_be_fired_is_told_while_it_is_so() {
    for (state, kind, word) in [(State::Parked, Kind::Parked, "parked"), (State::Failing, Kind::Failing, "failing")] {
        assert_eq!(changes(&Situation { state, ..calm() }), format!("+{word}"));
        let alert = [open(kind, 990.0, None, None)];
        assert_eq!(changes(&Situation { state, open: &alert, ..calm() }), "");
        assert_eq!(changes(&Situation { open: &alert, ..calm() }), format!("-{word}"));
    }
    let alert = [open(Kind::Failing, 990.0, None, None)];
    assert_eq!(changes(&Situation { state: State::Parked, open: &alert, ..calm() }), "+parked -failing");
}

#[test]
fn a_paused_schedule_is_silent() {
    let limits = Limits { max_lateness: Some(1), max_duration: Some(1), expect_success_within: Some(1) };
    let runs = [run(1, 0.0, Stage::New), run(2, 0.0, Stage::Runs(at(0.0)))];
    let (ends, coming) = ([end(3, 999.0, false)], [at(10.0)]);
    let all: Vec<Open> =
        <Kind as scheduler_core::Keyword>::ALL.iter().map(|kind| open(*kind, 900.0, None, None)).collect();
    let of =
        Situation { limits, state: State::Silent, runs: &runs, ends: &ends, coming: &coming, open: &all, ..calm() };
    assert_eq!(changes(&of), "-late -long -no_success -failed -parked -failing");
    assert_eq!((changes(&Situation { open: &[], ..of.clone() }), next(&of)), (String::new(), None));
}

/// A look that is made again at once finds nothing to do, whatever is so.
#[test]
fn looks_come_to_the_same() {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..20_000 {
        let mut limit = || (random(2) == 0).then(|| 1_000_000 * random(200) as i64 + 1);
        let limits = Limits { max_lateness: limit(), max_duration: limit(), expect_success_within: limit() };
        let runs: Vec<Run> = (0..random(4))
            .map(|id| {
                let stage = match random(3) {
                    0 => Stage::New,
                    1 => Stage::Waits,
                    _ => Stage::Runs(at(800.0 + random(200) as f64)),
                };
                run(u128::from(id), 800.0 + random(200) as f64, stage)
            })
            .collect();
        let ends: Vec<End> =
            (0..random(4)).map(|id| end(10 + u128::from(id), 900.0 + random(100) as f64, random(2) == 0)).collect();
        let last_success = ends.iter().filter(|end| end.is_success).map(|end| end.at).max();
        let coming: Vec<Instant> = (0..random(2)).map(|_| at(900.0 + random(200) as f64)).collect();
        let state = [State::Silent, State::Fires, State::Parked, State::Failing][random(4) as usize];
        let situation = Situation {
            limits,
            state,
            edited_at: at(random(1000) as f64),
            runs: &runs,
            ends: &ends,
            coming: &coming,
            waits: random(2) == 0,
            last_success,
            ..calm()
        };
        let (transitions, next_look) = judge(&situation);
        assert!(next_look.is_none_or(|next| next > situation.now));
        let mut remains: Vec<Open> = Vec::new();
        for transition in transitions {
            match transition {
                Transition::Opens(new) => {
                    assert!(remains.iter().all(|open| open.kind != new.kind), "two of a kind: {situation:?}");
                    remains.push(new);
                }
                Transition::Resolves(kind) => remains.retain(|open| open.kind != kind),
            }
        }
        let again = Situation { ends: &[], open: &remains, ..situation.clone() };
        assert_eq!(judge(&again).0, [], "{again:?}");
    }
}
