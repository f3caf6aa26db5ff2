//! Random numbers of tests.

use std::time::{SystemTime, UNIX_EPOCH};

/// A generator that is good enough for moments and victims (splitmix64).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// Another sequence in each run; its seed is printed.
    pub fn seeded() -> Self {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_micros() as u64;
        println!("seed {seed}");
        Self(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}
