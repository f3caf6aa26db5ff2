//! Takes the rows that a statement returns: the first ones as JSON, the others are only counted, by the server.

use std::ffi::{c_int, CStr};

use pgrx::pg_sys;
use pgrx::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::execute::output::Output;
use crate::execute::storable::storable;
use crate::pg::{compat, utf8_text};

/// What the server calls. Its first field is what the server knows of it.
#[repr(C)]
struct Inner {
    base: pg_sys::DestReceiver,
    output: *mut Output,
    description: pg_sys::TupleDesc,
    begun: bool,
}

/// Where a statement's rows go.
pub struct Receiver(Box<Inner>);

impl Receiver {
    /// `output` has to outlive the statement.
    pub fn new(output: &mut Output) -> Receiver {
        let base = pg_sys::DestReceiver {
            receiveSlot: Some(receive),
            rStartup: Some(start),
            rShutdown: Some(stop),
            rDestroy: Some(stop),
            // Not DestNone: a FETCH to nowhere would be a MOVE.
            mydest: pg_sys::CommandDest::DestSPI,
        };
        Receiver(Box::new(Inner { base, output, description: std::ptr::null_mut(), begun: false }))
    }

    pub fn as_destination(&mut self) -> *mut pg_sys::DestReceiver {
        (&raw mut *self.0).cast()
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn start(this: *mut pg_sys::DestReceiver, _operation: c_int, description: pg_sys::TupleDesc) {
    (*this.cast::<Inner>()).description = description;
}

unsafe extern "C-unwind" fn stop(_this: *mut pg_sys::DestReceiver) {}

#[pg_guard]
unsafe extern "C-unwind" fn receive(slot: *mut pg_sys::TupleTableSlot, this: *mut pg_sys::DestReceiver) -> bool {
    let this = &mut *this.cast::<Inner>();
    let output = &mut *this.output;
    if !std::mem::replace(&mut this.begun, true) {
        // (The slot's own description may have a table's names, or none.)
        output.begin_rows(columns(this.description));
    }
    if output.takes_rows() {
        output.add_row(row(slot, output.room()));
    }
    true
}

unsafe fn columns(description: pg_sys::TupleDesc) -> Vec<String> {
    let name = |index| CStr::from_ptr((*compat::attribute(description, index)).attname.data.as_ptr());
    (0..(*description).natts as usize).map(|index| name(index).to_string_lossy().into_owned()).collect()
}

/// A row as an array of JSON, as `row_to_json` has its values; `None` where it is larger than `room`.
unsafe fn row(slot: *mut pg_sys::TupleTableSlot, room: usize) -> Option<Box<RawValue>> {
    let description = (*slot).tts_tupleDescriptor;
    let count = (*description).natts;
    if count == 0 {
        return RawValue::from_string("[]".to_owned()).ok();
    }
    if i32::from((*slot).tts_nvalid) < count {
        pg_sys::slot_getsomeattrs_int(slot, count);
    }
    for index in 0..count as usize {
        // Before anything of it is read into memory.
        let is_varlena = (*compat::attribute(description, index)).attlen == -1;
        if is_varlena && !*(*slot).tts_isnull.add(index) {
            let value = *(*slot).tts_values.add(index);
            if pg_sys::toast_raw_datum_size(value) > room + 64 {
                return None;
            }
        }
    }
    let memory = pg_sys::AllocSetContextCreateInternal(
        pg_sys::CurrentMemoryContext,
        c"scheduler row".as_ptr(),
        pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
        pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
        pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
    );
    let before = pg_sys::MemoryContextSwitchTo(memory);
    pg_sys::BlessTupleDesc(description);
    let record = pg_sys::ExecFetchSlotHeapTupleDatum(slot);
    let json = pgrx::direct_function_call_as_datum(pg_sys::row_to_json, &[Some(record)]);
    let text = json.map(|json| utf8_text::lossy(json));
    pg_sys::MemoryContextSwitchTo(before);
    pg_sys::MemoryContextDelete(memory);
    array_of(&text?).filter(|row| row.get().len() <= room)
}

/// The values of a JSON object, in its order, as an array.
fn array_of(object: &str) -> Option<Box<RawValue>> {
    let Values(values) = serde_json::from_str(object).ok()?;
    let values: Vec<String> = values.iter().map(|value| storable(value.get())).collect();
    RawValue::from_string(format!("[{}]", values.join(","))).ok()
}

/// The values of an object with any keys, also such as come twice.
struct Values(Vec<Box<RawValue>>);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Values, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Values;

            fn expecting(&self, text: &mut std::fmt::Formatter) -> std::fmt::Result {
                text.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut entries: M) -> Result<Values, M::Error> {
                let mut values = Vec::new();
                while let Some((_, value)) = entries.next_entry::<String, Box<RawValue>>()? {
                    values.push(value);
                }
                Ok(Values(values))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}
