//! What one transaction fires of what is due: so many executions, and so many bytes of payload. The owners take turns, so that what one
//! of them has due, however much, keeps no other waiting.

use std::collections::{BTreeMap, VecDeque};

/// The longest payload of a new schedule, in bytes of its text: each fire writes it, while others wait.
pub const MAX_PAYLOAD_BYTES: usize = 1_048_576;

/// How many bytes of payload a dispatcher writes or delivers in one transaction: some milliseconds' work.
pub const MOST_BYTES: usize = 512 * 1024;

/// How much one transaction writes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many executions.
    pub executions: usize,
    /// How many bytes of payload. One execution may have more than is left of them.
    pub bytes: usize,
}

/// What a due schedule asks for.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Who owns its job.
    pub owner: u32,
    /// The size of its payload.
    pub bytes: usize,
}

/// Which of the due schedules fire in this transaction.
#[derive(Debug, PartialEq, Eq)]
pub struct Admission {
    /// For each demand, whether it fires.
    pub fires: Vec<bool>,
    /// The owner behind whom the next transaction begins.
    pub served: u32,
}

/// Owners in turns: first those behind the one that was served last.
pub fn in_turns<T>(owners: BTreeMap<u32, T>, served: u32) -> Vec<(u32, T)> {
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    for (owner, its) in owners {
        if owner > served { &mut behind } else { &mut before }.push((owner, its));
    }
    behind.extend(before);
    behind
}

/// Takes one item of each owner after the other, `most` of all; and the owner behind whom to go on, where some had to be left out.
pub fn take_in_turns<T>(lists: BTreeMap<u32, VecDeque<T>>, served: u32, most: usize) -> (Vec<T>, u32) {
    let mut owners = in_turns(lists, served);
    let (mut taken, mut last) = (Vec::new(), served);
    while taken.len() < most && !owners.is_empty() {
        for (owner, list) in &mut owners {
            if taken.len() == most {
                return (taken, last);
            }
            if let Some(item) = list.pop_front() {
                taken.push(item);
                last = *owner;
            }
        }
        owners.retain(|(_, list)| !list.is_empty());
    }
    (taken, last)
}

/// Each schedule once, as far as the bounds allow, the owners in turns. `demands` are in the order in which those of an owner come. An owner of
/// whom nothing fits gets one execution nevertheless: in each transaction another one.
#[must_use]
pub fn admit(demands: &[Demand], bounds: Bounds, served: u32) -> Admission {
    let total = demands.iter().fold(0_usize, |sum, demand| sum.saturating_add(demand.bytes));
    if demands.len() <= bounds.executions && total <= bounds.bytes {
        return Admission { fires: vec![true; demands.len()], served };
    }
    let mut lists: BTreeMap<u32, VecDeque<(usize, usize)>> = BTreeMap::new();
    for (index, demand) in demands.iter().enumerate() {
        lists.entry(demand.owner).or_default().push_back((index, demand.bytes));
    }
    let mut fires = vec![false; demands.len()];
    let (mut count, mut bytes) = (0, 0_usize);
    let mut owners = in_turns(lists, served);
    let mut first_left = None;
    let mut is_first_round = true;
    while !owners.is_empty() {
        owners.retain_mut(|(owner, list)| {
            let Some((index, size)) = list.pop_front() else { return false };
            let fits = count < bounds.executions && bytes.saturating_add(size) <= bounds.bytes;
            if fits {
                fires[index] = true;
                (count, bytes) = (count + 1, bytes + size);
            } else if is_first_round && first_left.is_none() {
                first_left = Some((*owner, index));
            }
            fits
        });
        is_first_round = false;
    }
    let served = first_left.map_or(served, |(owner, index)| {
        fires[index] = true;
        owner
    });
    Admission { fires, served }
}

/// How many executions more each of some schedules that fire may have: what is left of the bounds, in equal parts for the owners, and of
/// theirs for their schedules. `most` says how many a schedule takes.
#[must_use]
pub fn share_out(demands: &[Demand], most: &[usize], left: Bounds, served: u32) -> Vec<usize> {
    let mut lists: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, demand) in demands.iter().enumerate() {
        lists.entry(demand.owner).or_default().push(index);
    }
    let mut shares = vec![0; demands.len()];
    let mut left = left;
    // Those with small payloads first: what they do not take is the others'.
    lists.values_mut().for_each(|list| list.sort_by_key(|index| demands[*index].bytes));
    let mut owners = in_turns(lists, served);
    owners.sort_by_key(|(_, list)| list.last().map(|index| demands[*index].bytes));
    for (place, (_, list)) in owners.iter().enumerate() {
        let owners_left = owners.len() - place;
        let mut own = Bounds { executions: left.executions / owners_left, bytes: left.bytes / owners_left };
        for (place, index) in list.iter().enumerate() {
            let schedules_left = list.len() - place;
            let by_bytes = (own.bytes / schedules_left).checked_div(demands[*index].bytes).unwrap_or(usize::MAX);
            let share = (own.executions / schedules_left).min(by_bytes).min(most[*index]);
            shares[*index] = share;
            let bytes = share * demands[*index].bytes;
            own = Bounds { executions: own.executions - share, bytes: own.bytes - bytes };
            left = Bounds { executions: left.executions - share, bytes: left.bytes - bytes };
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u32 = 10;
    const B: u32 = 20;
    const C: u32 = 30;

    fn demands(of: &[(u32, usize)]) -> Vec<Demand> {
        of.iter().map(|(owner, bytes)| Demand { owner: *owner, bytes: *bytes }).collect()
    }

    fn fires(of: &[(u32, usize)], executions: usize, bytes: usize, served: u32) -> (Vec<usize>, u32) {
        let admission = admit(&demands(of), Bounds { executions, bytes }, served);
        let indexes = admission.fires.iter().enumerate().filter(|(_, fires)| **fires).map(|(index, _)| index);
        (indexes.collect(), admission.served)
    }

    #[test]
    fn all_fire_that_fit() {
        assert_eq!(fires(&[(A, 3), (A, 3), (B, 4)], 3, 10, A), (vec![0, 1, 2], A));
    }

    #[test]
    fn owners_take_turns_in_executions_and_bytes() {
        assert_eq!(fires(&[(A, 1), (A, 1), (A, 1), (B, 1)], 2, 10, 0), (vec![0, 3], 0));
        assert_eq!(fires(&[(A, 4), (A, 4), (A, 4), (B, 4)], 9, 9, 0), (vec![0, 3], 0));
        // What does not fit takes nothing from the others.
        assert_eq!(fires(&[(A, 100), (A, 1), (B, 1), (B, 1)], 9, 9, C), (vec![0, 2, 3], A));
    }

    #[test]
    fn who_never_fits_fires_in_turns() {
        let large = [(A, 100), (B, 100), (C, 1)];
        let (first, served) = fires(&large, 9, 9, 0);
        assert_eq!((first, served), (vec![0, 2], A));
        assert_eq!(fires(&large, 9, 9, served), (vec![1, 2], B));
        assert_eq!(fires(&large, 9, 9, B), (vec![0, 2], A));
        // One at least, whatever the bounds.
        assert_eq!(fires(&[(A, 5)], 0, 0, A), (vec![0], A));
    }

    #[test]
    fn what_is_left_is_shared_out() {
        let of = demands(&[(A, 10), (A, 10), (B, 0)]);
        let shares = |executions, bytes| share_out(&of, &[99, 99, 7], Bounds { executions, bytes }, 0);
        assert_eq!(shares(100, 1000), vec![46, 47, 7]);
        assert_eq!(shares(100, 60), vec![3, 3, 7]);
        assert_eq!(shares(0, 60), vec![0, 0, 0]);
        assert_eq!(share_out(&of[..1], &[99], Bounds { executions: 1000, bytes: 5 }, 0), vec![0]);
    }

    #[test]
    fn one_item_of_each_owner_after_the_other() {
        let lists =
            || BTreeMap::from([(A, VecDeque::from([1, 2, 3])), (B, VecDeque::from([4])), (C, VecDeque::from([5, 6]))]);
        assert_eq!(take_in_turns(lists(), 0, 9).0, vec![1, 4, 5, 2, 6, 3]);
        assert_eq!(take_in_turns(lists(), A, 2), (vec![4, 5], C));
        assert_eq!(take_in_turns(lists(), C, 1), (vec![1], A));
    }
}
