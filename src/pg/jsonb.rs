//! `jsonb` carried as it is: pgrx' own type goes through text and serde, which costs time and rounds large numbers.

use pgrx::{pg_sys, FromDatum, IntoDatum};

use crate::pg::memory;
use crate::pg::sql_type::{argument_type, element_type, result_type};

/// A detoasted copy of a `jsonb` value.
#[derive(Debug, PartialEq)]
pub struct Jsonb(Vec<u8>);

impl Clone for Jsonb {
    fn clone(&self) -> Jsonb {
        memory::require(self.0.len());
        Jsonb(self.0.clone())
    }
}

impl Jsonb {
    /// The empty object.
    pub fn empty() -> Jsonb {
        Jsonb::of_texts(&[])
    }

    /// Whether it is an array. (A scalar is stored as an array of one, with a flag: JB_FARRAY, JB_FSCALAR.)
    pub fn is_array(&self) -> bool {
        let header = self.0.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
        header.is_some_and(|header| header & 0x5000_0000 == 0x4000_0000)
    }
}

impl Jsonb {
    /// JSON text as jsonb; Postgres raises where it is none.
    pub fn parse(text: &str) -> Jsonb {
        let text = std::ffi::CString::new(text).unwrap_or_default();
        // SAFETY: jsonb_in takes a C string and returns a plain varlena in the current memory context.
        let parsed = unsafe {
            pgrx::direct_function_call_as_datum(pg_sys::jsonb_in, &[Some(pg_sys::Datum::from(text.as_ptr()))])
                .and_then(|datum| Jsonb::from_polymorphic_datum(datum, false, pg_sys::JSONBOID))
        };
        parsed.unwrap_or_else(Jsonb::empty)
    }
}

impl Jsonb {
    /// An object of texts, whose names differ. It is put together as jsonb is stored (utils/jsonb.h), with the names in jsonb's order: a report has
    /// thousands of them, and to write and parse text takes ten times as long.
    pub fn of_texts(pairs: &[(&str, &str)]) -> Jsonb {
        // (JB_FOBJECT and JENTRY_HAS_OFF. From the 32nd entry on there would be another offset.)
        const OBJECT: u32 = 0x2000_0000;
        const HAS_OFFSET: u32 = 0x8000_0000;
        if pairs.len() > 15 {
            let object: serde_json::Map<_, _> =
                pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).into())).collect();
            return Jsonb::parse(&serde_json::Value::Object(object).to_string());
        }
        let mut pairs: Vec<&(&str, &str)> = pairs.iter().collect();
        pairs.sort_unstable_by_key(|(name, _)| (name.len(), *name));
        let strings = || pairs.iter().map(|(name, _)| *name).chain(pairs.iter().map(|(_, text)| *text));
        let size = 8 + 8 * pairs.len() + strings().map(str::len).sum::<usize>();
        let mut bytes = Vec::with_capacity(size);
        bytes.extend(((size as u32) << 2).to_ne_bytes());
        bytes.extend((OBJECT | pairs.len() as u32).to_ne_bytes());
        for (number, string) in strings().enumerate() {
            let offset = if number == 0 { HAS_OFFSET } else { 0 };
            bytes.extend((string.len() as u32 | offset).to_ne_bytes());
        }
        strings().for_each(|string| bytes.extend(string.as_bytes()));
        Jsonb(bytes)
    }
}

impl Jsonb {
    /// How many bytes it takes as PostgreSQL stores it, not compressed.
    pub fn stored_size(&self) -> usize {
        self.0.len()
    }

    /// `octet_length(value::text)`.
    pub fn text_size(&self) -> usize {
        self.with_text(|text| text.map_or(0, |text| text.to_bytes().len()))
    }

    /// As JSON text.
    pub fn text(&self) -> String {
        self.with_text(|text| {
            text.map_or_else(String::new, |text| {
                memory::require(text.to_bytes().len());
                text.to_string_lossy().into_owned()
            })
        })
    }

    fn with_text<R>(&self, read: impl FnOnce(Option<&std::ffi::CStr>) -> R) -> R {
        // SAFETY: jsonb_out takes a whole varlena and returns a C string.
        read(unsafe { pgrx::direct_function_call(pg_sys::jsonb_out, &[self.clone().into_datum()]) })
    }
}

impl FromDatum for Jsonb {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Jsonb> {
        if is_null {
            return None;
        }
        let stored = datum.cast_mut_ptr::<pg_sys::varlena>();
        let plain = pg_sys::pg_detoast_datum(stored);
        memory::require(pgrx::varsize_any(plain));
        let bytes = std::slice::from_raw_parts(plain.cast::<u8>(), pgrx::varsize_any(plain)).to_vec();
        if plain != stored {
            pg_sys::pfree(plain.cast());
        }
        Some(Jsonb(bytes))
    }
}

impl IntoDatum for Jsonb {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        // SAFETY: a palloc'd copy of a whole varlena.
        unsafe {
            let copy = pg_sys::palloc(self.0.len()).cast::<u8>();
            std::ptr::copy_nonoverlapping(self.0.as_ptr(), copy, self.0.len());
            Some(pg_sys::Datum::from(copy))
        }
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::JSONBOID
    }
}

argument_type!(Jsonb, "jsonb", Jsonb::empty());
element_type!(Jsonb, Jsonb::empty());
result_type!(Jsonb);
