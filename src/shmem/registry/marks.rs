//! Which databases have queues that are to be notified. `notifications.rs` says which queues those are.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::shmem::registry::{set_latch, slot_of, tell, Slot};

/// Whether somebody sends what commits of this database mark.
pub fn sends_notifications(database: u32) -> bool {
    slot_of(database).is_some_and(|slot| slot.sends.load(SeqCst))
}

/// Has this database's dispatcher notify the queues that are marked.
pub fn notify_marked(database: u32) {
    // Who has marked one before has woken it.
    if let Some(slot) = slot_of(database).filter(|slot| !slot.marked.swap(true, SeqCst)) {
        set_latch(slot.dispatcher_pid.load(SeqCst));
    }
}

/// Has this database's dispatcher notify all queues in which something waits.
pub fn notify_all(database: u32) {
    tell(database, |slot| &slot.all_marked);
}

/// Whether all queues are to be notified in which something waits.
pub fn wants_notify_all(database: u32) -> bool {
    slot_of(database).is_some_and(|slot| slot.all_marked.load(SeqCst))
}

/// To be said before it is read which queues those are.
pub fn take_notify_all(database: u32) {
    take_to_send(database, |slot| &slot.all_marked);
}

/// Whether queues of this database are marked.
pub fn has_marked(database: u32) -> bool {
    slot_of(database).is_some_and(|slot| slot.marked.load(SeqCst))
}

/// To be said before the marks are read.
pub fn take_marked(database: u32) {
    take_to_send(database, |slot| &slot.marked);
}

fn take_to_send(database: u32, flag: impl Fn(&Slot) -> &AtomicBool) {
    slot_of(database).into_iter().for_each(|slot| {
        slot.sending.store(true, SeqCst);
        flag(slot).store(false, SeqCst);
    });
}

/// To be said of what was taken, once it is sent: where that failed, all queues are to be notified.
pub fn end_sending(database: u32, sent: bool) {
    if !sent {
        notify_all(database);
    }
    slot_of(database).into_iter().for_each(|slot| slot.sending.store(false, SeqCst));
}
