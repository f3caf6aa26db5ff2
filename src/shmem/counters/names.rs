//! Names in shared memory: written once, before anybody can come upon them.

use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// What tells a name from the others. (Two of one hash would be counted together.)
pub fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// A text of up to so many words of eight bytes, with zeros behind it: no name has one in it.
pub struct SharedName<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> SharedName<WORDS> {
    /// Writes it; what is longer is cut.
    pub fn write(&self, name: &str) {
        let end = (0..=name.len().min(WORDS * 8)).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
        let mut chunks = name.as_bytes()[..end].chunks(8);
        for word in &self.0 {
            let mut bytes = [0; 8];
            if let Some(chunk) = chunks.next() {
                bytes[..chunk.len()].copy_from_slice(chunk);
            }
            word.store(u64::from_ne_bytes(bytes), SeqCst);
        }
    }

    /// Reads it.
    pub fn read(&self) -> String {
        let mut bytes: Vec<u8> = self.0.iter().flat_map(|word| word.load(SeqCst).to_ne_bytes()).collect();
        bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
