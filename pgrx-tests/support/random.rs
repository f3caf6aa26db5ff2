//! Random numbers with a fixed seed, so that a failure comes again.
#![allow(missing_docs, reason = "test code")]

/// xorshift64*.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number less than n.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % n
    }

    /// One of the items.
    pub fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len() as u64) as usize]
    }

    /// A few different numbers of a range, rising; at least one.
    pub fn some(&mut self, most: u64, from: u64, to: u64) -> Vec<u64> {
        let mut out: Vec<u64> = (0..=self.below(most)).map(|_| from + self.below(to - from + 1)).collect();
        out.sort_unstable();
        out.dedup();
        out
    }
}
