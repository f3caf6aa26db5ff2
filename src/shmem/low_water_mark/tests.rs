//! The rules by which positions are remembered, without a server.

use std::cmp::Reverse;

use crate::shmem::low_water_mark::*;

const QUEUE: [u64; 2] = [7, 9];
const OTHER: [u64; 2] = [7, 11];
const TRUSTED: i64 = super::TRUSTED as i64;
const LONGEST: i64 = super::LONGEST as i64;

fn order() -> Order {
    Order { marks: Box::leak(Box::default()), order: QUEUE, table: 3 }
}

fn at(micros: i64) -> Instant {
    Instant::from_micros(micros).unwrap_or(Instant::UNIX_EPOCH)
}

fn forget(order: Order, table: u64) {
    order.marks.slots.iter().for_each(|slot| slot.forget(table));
}

fn position(priority: i32, time: i64) -> Position {
    Position { priority: Reverse(priority), time, id: 7 << 64 | 9 }
}

#[test]
fn positions_stand_in_the_order_of_claiming() {
    let all =
        [(9, 5, 3), (9, 6, 0), (9, 6, 1), (9, 6, 1 << 64), (1, -3, 7), (0, 0, 0), (-4, 2, 9), (i32::MIN, i64::MAX, 8)];
    let positions = all.map(|(priority, time, id)| Position { priority: Reverse(priority), time, id });
    assert!(positions.is_sorted_by(|one, other| one < other));
    assert!(positions.iter().all(|one| Position::START < *one && *one < Position::END));
    let order = order();
    for this in positions {
        let (priority, time, id) = this.parts();
        assert_eq!(Position::new(priority, time, id), this);
        order.begin_scan(at(0)).found(this, at(0));
        assert_eq!(order.first(at(2)), Some(this));
    }
}

#[test]
fn what_a_look_has_found_is_where_the_next_one_begins() {
    let order = order();
    let guard = order.begin_scan(at(0));
    assert_eq!(guard.from, None);
    guard.found(position(0, 50), at(1));
    assert_eq!(order.begin_scan(at(2)).from, Some(position(0, 50)));
    assert!(position(0, 50).is_after(at(49)) && !position(0, 50).is_after(at(50)));
}

#[test]
fn an_entry_before_it_moves_it_back_and_one_behind_it_does_not() {
    let order = order();
    order.begin_scan(at(0)).found(position(3, 50), at(0));
    order.added(position(3, 60));
    order.added(position(2, 10));
    assert_eq!(order.first(at(2)), Some(position(3, 50)));
    order.added(position(3, 40));
    assert_eq!(order.first(at(2)), Some(position(3, 40)));
    order.added(position(4, 90));
    assert_eq!(order.first(at(2)), Some(position(4, 90)));
    order.added(Position::START);
    assert_eq!(order.first(at(2)), Some(Position::START));
    forget(order, 4);
    assert_eq!(order.first(at(2)), Some(Position::START));
    forget(order, 3);
    assert_eq!(order.first(at(2)), None);
}

#[test]
fn a_look_finds_nothing_behind_what_was_added_during_it() {
    let order = order();
    let guard = order.begin_scan(at(0));
    order.added(position(0, 30));
    order.added(position(0, 60));
    guard.found(position(0, 50), at(1));
    assert_eq!(order.first(at(2)), Some(position(0, 30)));
    let guard = order.begin_scan(at(2));
    order.added(position(0, 90));
    guard.found(position(0, 80), at(1));
    assert_eq!(order.first(at(4)), Some(position(0, 80)));
    // Wherever it was added, and whoever's slot it was.
    for add in [|order: Order| order.added(Position::START), |order: Order| forget(order, 3)] {
        let guard = order.begin_scan(at(4));
        add(order);
        guard.found(position(0, 95), at(1));
        assert!(order.first(at(6)) < Some(position(0, 95)));
        order.begin_scan(at(6)).found(position(0, 80), at(6));
    }
    // Not what was added to another.
    let guard = order.begin_scan(at(7));
    Order { order: OTHER, ..order }.added(position(0, 85));
    guard.found(position(0, 95), at(1));
    assert_eq!(order.first(at(9)), Some(position(0, 95)));
}

/// Leases and retries of a quiet queue: of both nothing is found, in turn, and both belong where the other one does.
#[test]
fn two_orders_of_one_slot_do_not_take_it_from_each_other() {
    let one = order();
    let other = Order { order: OTHER, ..one };
    for now in 0..3 {
        one.begin_scan(at(now)).found(Position::END, at(now));
        other.begin_scan(at(now)).found(Position::END, at(now));
    }
    assert_eq!((one.first(at(3)), other.first(at(3))), (Some(Position::END), Some(Position::END)));
}

/// Names that nobody looks at any more give their slots to those that somebody does, and not the other way round.
#[test]
fn a_full_board_gives_the_slot_that_was_looked_at_least_lately() {
    let one = order();
    let named = |name: u64| Order { order: [7, 1000 + name], ..one };
    for name in 0..ORDER_SLOTS as u64 {
        named(name).begin_scan(at(name as i64)).found(Position::END, at(name as i64));
    }
    let now = ORDER_SLOTS as i64;
    one.begin_scan(at(now)).found(Position::END, at(now));
    assert!(one.marks.find(named(0).order).is_none());
    assert!((1..ORDER_SLOTS as u64).all(|name| one.marks.find(named(name).order).is_some()));
    one.begin_scan(at(now)).found(Position::END, at(now));
    assert_eq!(one.first(at(now)), Some(Position::END));
}

#[test]
fn lookers_do_not_disturb_each_other_and_there_is_room_for_a_few() {
    let order = order();
    let mut guards: Vec<ScanGuard> = (0..=SCAN_SLOTS).map(|_| order.begin_scan(at(0))).collect();
    guards.pop().into_iter().for_each(|guard| guard.found(position(0, 9), at(1)));
    assert_eq!(order.first(at(2)), None);
    order.added(position(0, 3));
    for (guard, time) in guards.into_iter().zip([5, 2, 7, 1]) {
        guard.found(position(0, time), at(1));
        assert_eq!(order.first(at(2)), Some(position(0, time.min(3))));
    }
    // One that failed gives its room back, and one whose process has gone loses it.
    (0..9).for_each(|_| drop(order.begin_scan(at(3))));
    let gone: Vec<ScanGuard> = (0..SCAN_SLOTS).map(|_| order.begin_scan(at(3))).collect();
    order.begin_scan(at(4)).found(position(0, 4), at(4));
    assert_eq!(order.first(at(4)), Some(position(0, 1)));
    order.begin_scan(at(3 + LONGEST)).found(position(0, 4), at(3 + LONGEST));
    assert_eq!(order.first(at(3 + LONGEST)), Some(position(0, 4)));
    gone.into_iter().take(1).for_each(|guard| guard.found(position(0, 6), at(1)));
    assert_eq!(order.first(at(4 + LONGEST)), Some(position(0, 4)));
}

#[test]
fn it_is_believed_for_a_while_from_the_look_at_the_very_head_on() {
    let order = order();
    order.begin_scan(at(0)).found(position(0, 50), at(0));
    order.begin_scan(at(TRUSTED - 1)).found(position(0, 70), at(TRUSTED - 1));
    assert_eq!(order.first(at(TRUSTED - 1)), Some(position(0, 70)));
    assert_eq!(order.first(at(TRUSTED)), None);
    // The clock was set back.
    assert_eq!(order.first(at(-TRUSTED)), None);
}

#[test]
fn orders_of_one_place_do_not_meddle() {
    let one = order();
    let other = Order { order: OTHER, ..one };
    one.begin_scan(at(0)).found(position(0, 50), at(0));
    other.begin_scan(at(2)).found(position(0, 10), at(2));
    other.added(position(0, 5));
    assert_eq!((one.first(at(4)), other.first(at(4))), (Some(position(0, 50)), Some(position(0, 5))));
}

#[test]
fn places_go_to_those_who_look() {
    let order = order();
    let all =
        |from: u64| (from..).take(ORDER_SLOTS).map(move |number| Order { order: [number << 32 | 1, number], ..order });
    // A few of them are looked at just now, and have no more than that.
    let guards: Vec<ScanGuard> = all(1).take(3).map(|order| order.begin_scan(at(0))).collect();
    all(1).skip(3).for_each(|order| order.begin_scan(at(0)).found(position(0, 50), at(0)));
    order.begin_scan(at(1)).found(position(0, 50), at(1));
    assert_eq!(order.first(at(2)), None);
    drop(guards);
    order.begin_scan(at(2)).found(position(0, 50), at(2));
    assert_eq!(order.first(at(2)), Some(position(0, 50)));
    assert_eq!(all(1).filter(|order| order.first(at(2)).is_some()).count(), ORDER_SLOTS - 3);
    // Nobody has looked at the head of these for long.
    all(1000).take(ORDER_SLOTS - 3).for_each(|order| order.begin_scan(at(TRUSTED)).found(position(0, 50), at(TRUSTED)));
    assert_eq!(
        all(1000).take(ORDER_SLOTS - 3).filter(|order| order.first(at(TRUSTED)).is_some()).count(),
        ORDER_SLOTS - 3
    );
}

#[test]
fn while_somebody_looks_from_the_very_head_nobody_else_has_to() {
    let order = order();
    order.begin_scan(at(0)).found(position(0, 50), at(0));
    let guard = order.begin_scan(at(TRUSTED));
    assert_eq!(guard.from, None);
    let other = order.begin_scan(at(TRUSTED + 1));
    assert_eq!(other.from, Some(position(0, 50)));
    guard.found(position(0, 60), at(TRUSTED + 2));
    // It began with less, but began later; and what it did not find the other may have found, of which nobody told.
    other.found(position(0, 55), at(TRUSTED + 3));
    assert_eq!(order.first(at(2 * TRUSTED + 1)), Some(position(0, 55)));
    let (late, late_too) = (order.begin_scan(at(TRUSTED + 4)), order.begin_scan(at(TRUSTED + 4)));
    late.found(position(0, 70), at(TRUSTED + 5));
    late_too.found(position(0, 65), at(TRUSTED + 6));
    assert_eq!(order.first(at(TRUSTED + 7)), Some(position(0, 65)));
    order.begin_scan(at(TRUSTED + 7)).found(position(0, 55), at(TRUSTED + 7));
    assert_eq!(order.first(at(2 * TRUSTED + 2)), None);
    let _endless = order.begin_scan(at(3 * TRUSTED));
    assert_eq!(order.first(at(3 * TRUSTED + 2)), None);
}

#[test]
fn a_look_that_began_halfway_does_not_overrule_one_from_the_very_head() {
    let order = order();
    order.begin_scan(at(0)).found(position(0, 50), at(0));
    let halfway = order.begin_scan(at(TRUSTED - 1));
    order.begin_scan(at(TRUSTED)).found(position(0, 20), at(TRUSTED));
    halfway.found(position(0, 60), at(TRUSTED + 1));
    assert_eq!(order.first(at(2 * TRUSTED - 1)), Some(position(0, 20)));
    assert_eq!(order.first(at(2 * TRUSTED)), None);
}

#[test]
fn what_was_added_before_it_calls_for_a_look() {
    let order = order();
    order.begin_scan(at(0)).found(position(0, 50), at(0));
    order.added(position(0, 60));
    assert_eq!(order.steady(at(1)), Some(position(0, 50)));
    order.added(position(9, 70));
    assert_eq!((order.steady(at(1)), order.first(at(1))), (None, Some(position(9, 70))));
    order.begin_scan(at(1)).found(position(0, 50), at(1));
    assert_eq!(order.steady(at(1)), Some(position(0, 50)));
}

#[test]
fn of_an_empty_order_that_is_new_nothing_is_remembered() {
    let order = order();
    order.begin_scan(at(0)).found(Position::END, at(0));
    assert_eq!(order.first(at(0)), None);
    order.begin_scan(at(0)).found(Position::END, at(0));
    assert_eq!(order.first(at(0)), Some(Position::END));
}
