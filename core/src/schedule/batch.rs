//! What one transaction fires of what is due: so many executions, and so many bytes of payload. The owners take turns, so that what one
//! of them has due, however much, keeps no other waiting.

use std::collections::{BTreeMap, VecDeque};

/// The longest payload of a new schedule, in bytes of its text: each fire writes it, while others wait.
pub const MAX_PAYLOAD_BYTES: usize = 1_048_576;

/// How many bytes of payload a dispatcher writes or delivers in one transaction: some milliseconds' work.
pub const MOST_BYTES: usize = 512 * 1024;

/// How many executions a dispatcher fires in one transaction where several owners have more due than it could: some milliseconds' work.
pub const MOST_CONTENDED: usize = 400;

/// How much one transaction writes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many executions.
    pub executions: usize,
    /// How many of them where not all fit that several owners have due: each waits for what the others fire.
    pub contended: usize,
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
    /// How many executions at most: one, or more where it makes up for a backlog.
    pub most: usize,
}

impl Demand {
    fn all_bytes(&self) -> usize {
        self.bytes.saturating_mul(self.most)
    }
}

/// Which of the due schedules fire in this transaction.
#[derive(Debug, PartialEq, Eq)]
pub struct Admission {
    /// For each demand, how many executions it has; none where it does not fire.
    pub executions: Vec<usize>,
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

fn sum(parts: impl Iterator<Item = usize>) -> usize {
    parts.fold(0, usize::saturating_add)
}

/// Whether all that is asked for is within the bounds.
#[must_use]
pub fn fit(demands: &[Demand], bounds: Bounds) -> bool {
    sum(demands.iter().map(|demand| demand.most)) <= bounds.executions
        && sum(demands.iter().map(Demand::all_bytes)) <= bounds.bytes
}

/// Shares the bounds out: to the owners in equal parts, of which none gets more than it asks for (max-min fairness, as in D. Bertsekas and R.
/// Gallager, Data Networks, 6.5.2), and what an owner gets to its schedules: one execution each, in the order of `demands`, then what is left
/// in equal parts to those that ask for more. So what one owner has due, however much, takes nothing from the part of another. An owner of whom
/// nothing fits gets one execution nevertheless: in each transaction another one.
#[must_use]
pub fn share_out(demands: &[Demand], bounds: Bounds, served: u32) -> Admission {
    if fit(demands, bounds) {
        return Admission { executions: demands.iter().map(|demand| demand.most).collect(), served };
    }
    let mut lists: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, demand) in demands.iter().enumerate() {
        lists.entry(demand.owner).or_default().push(index);
    }
    let most = if lists.len() > 1 { bounds.contended.min(bounds.executions) } else { bounds.executions };
    let mut owners = in_turns(lists, served);
    let mut next = served;
    if owners.len() > most {
        owners.truncate(most.max(1));
        next = owners.last().map_or(served, |(owner, _)| *owner);
    }
    let wants = |want: fn(&Demand) -> usize| -> Vec<usize> {
        owners.iter().map(|(_, list)| sum(list.iter().map(|index| want(&demands[*index])))).collect()
    };
    let executions_of = equal_parts(&wants(|demand| demand.most), most);
    let bytes_of = equal_parts(&wants(Demand::all_bytes), bounds.bytes);
    let mut executions = vec![0; demands.len()];
    let mut left_out = None;
    for ((owner, list), (own, bytes)) in owners.iter().zip(executions_of.into_iter().zip(bytes_of)) {
        let is_served = share_out_own(demands, list, own, bytes, &mut executions);
        if !is_served && left_out.is_none() {
            left_out = list.first().map(|index| (*owner, *index));
        }
    }
    if let Some((owner, index)) = left_out {
        executions[index] = 1;
        next = owner;
    }
    Admission { executions, served: next }
}

/// One owner's part among its schedules; false where nothing fits.
fn share_out_own(
    demands: &[Demand],
    list: &[usize],
    mut own: usize,
    mut bytes: usize,
    executions: &mut [usize],
) -> bool {
    let mut firing = Vec::new();
    for index in list {
        let size = demands[*index].bytes;
        if own == 0 || size > bytes {
            break;
        }
        (own, bytes) = (own - 1, bytes - size);
        executions[*index] = 1;
        firing.push(*index);
    }
    let is_served = !firing.is_empty();
    firing.retain(|index| demands[*index].most > 1);
    // Those with small payloads first: what they do not take is the others'.
    firing.sort_by_key(|index| demands[*index].bytes);
    for (place, index) in firing.iter().enumerate() {
        let (left, demand) = (firing.len() - place, demands[*index]);
        let by_bytes = (bytes / left).checked_div(demand.bytes).unwrap_or(usize::MAX);
        let more = (own / left).min(by_bytes).min(demand.most - 1);
        executions[*index] += more;
        (own, bytes) = (own - more, bytes - more * demand.bytes);
    }
    is_served
}

/// Equal parts of a whole, none larger than is wanted.
fn equal_parts(wants: &[usize], whole: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..wants.len()).collect();
    places.sort_by_key(|place| wants[*place]);
    let (mut parts, mut left) = (vec![0; wants.len()], whole);
    for (before, place) in places.iter().enumerate() {
        parts[*place] = wants[*place].min(left / (wants.len() - before));
        left -= parts[*place];
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u32 = 10;
    const B: u32 = 20;
    const C: u32 = 30;

    fn demands(of: &[(u32, usize, usize)]) -> Vec<Demand> {
        of.iter().map(|(owner, bytes, most)| Demand { owner: *owner, bytes: *bytes, most: *most }).collect()
    }

    fn shares(of: &[(u32, usize, usize)], executions: usize, bytes: usize, served: u32) -> (Vec<usize>, u32) {
        let bounds = Bounds { executions, contended: executions, bytes };
        let admission = share_out(&demands(of), bounds, served);
        (admission.executions, admission.served)
    }

    #[test]
    fn all_fire_that_fit() {
        assert_eq!(shares(&[(A, 3, 1), (A, 3, 1), (B, 4, 1)], 3, 10, A), (vec![1, 1, 1], A));
        assert_eq!(shares(&[(A, 3, 2), (B, 4, 1)], 3, 10, A), (vec![2, 1], A));
    }

    #[test]
    fn owners_have_equal_parts_of_executions_and_bytes() {
        assert_eq!(shares(&[(A, 1, 1), (A, 1, 1), (A, 1, 1), (B, 1, 1)], 2, 10, 0), (vec![1, 0, 0, 1], 0));
        assert_eq!(shares(&[(A, 4, 1), (A, 4, 1), (A, 4, 1), (B, 4, 1)], 9, 9, 0), (vec![1, 0, 0, 1], 0));
        // The part that an owner does not want is the others'.
        assert_eq!(shares(&[(A, 1, 1), (A, 1, 1), (A, 1, 1), (B, 1, 1)], 3, 10, 0), (vec![1, 1, 0, 1], 0));
        // What does not fit takes nothing from the others.
        assert_eq!(shares(&[(A, 100, 1), (A, 1, 1), (B, 1, 1), (B, 1, 1)], 9, 9, C), (vec![1, 0, 1, 1], A));
    }

    #[test]
    fn a_backlog_has_its_owners_part_whatever_others_have_due() {
        let mut of = vec![(A, 0, 1000); 500];
        of.extend([(B, 0, 30), (B, 0, 1)]);
        let (shared, _) = shares(&of, 100, 100, 0);
        assert_eq!(shared[500..], [30, 1]);
        assert_eq!((shared[..69].iter().sum::<usize>(), shared[..500].iter().sum::<usize>()), (69, 69));
        let bounds = Bounds { executions: 100, contended: 20, bytes: 100 };
        assert_eq!(share_out(&demands(&of), bounds, 0).executions[500..], [9, 1]);
        assert_eq!(share_out(&demands(&of[..500]), bounds, 0).executions.iter().sum::<usize>(), 100);
    }

    #[test]
    fn who_never_fits_fires_in_turns() {
        let large = [(A, 100, 1), (B, 100, 1), (C, 1, 1)];
        let (first, served) = shares(&large, 9, 9, 0);
        assert_eq!((first, served), (vec![1, 0, 1], A));
        assert_eq!(shares(&large, 9, 9, served), (vec![0, 1, 1], B));
        assert_eq!(shares(&large, 9, 9, B), (vec![1, 0, 1], A));
        // One at least, whatever the bounds.
        assert_eq!(shares(&[(A, 5, 1)], 0, 0, A), (vec![1], A));
    }

    #[test]
    fn more_owners_than_executions_fire_in_turns() {
        let all = [(A, 0, 1), (B, 0, 1), (C, 0, 1)];
        let (first, served) = shares(&all, 2, 9, 0);
        assert_eq!((first, served), (vec![1, 1, 0], B));
        assert_eq!(shares(&all, 2, 9, served), (vec![1, 0, 1], A));
    }

    #[test]
    fn what_is_left_is_shared_out() {
        let of = [(A, 10, 100), (A, 10, 100), (B, 0, 8)];
        assert_eq!(shares(&of, 103, 1030, 0).0, vec![47, 48, 8]);
        assert_eq!(shares(&of, 103, 80, 0).0, vec![4, 4, 8]);
        assert_eq!(shares(&of[..1], 1000, 5, 0).0, vec![1]);
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
