//! Arrays as arguments. Their length is a user's choice, so it is looked at before anything of them is copied.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::{pg_sys, FromDatum, PgSqlErrorCode};

use crate::pg::error::{raise, Failure};
use crate::pg::jsonb::Jsonb;
use crate::pg::memory;
use crate::pg::sql_type::argument_type;
use crate::pg::utf8_text::Text;

/// The most elements that an array may have.
pub const MAX_ELEMENTS: usize = 1_000_000;

/// What a call keeps of one element, at most, beside the element itself: its places in our lists.
const BYTES_FOR_EACH: usize = 128;

/// An array; `54000` where it has too many elements, `53200` where there is no memory for them.
#[derive(Clone, Debug)]
pub struct Many<T, const MOST: usize = MAX_ELEMENTS>(Vec<Option<T>>);

impl<T, const MOST: usize> Many<T, MOST> {
    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T, const MOST: usize> Default for Many<T, MOST> {
    fn default() -> Many<T, MOST> {
        Many(Vec::new())
    }
}

impl<T, const MOST: usize> IntoIterator for Many<T, MOST> {
    type Item = Option<T>;
    type IntoIter = std::vec::IntoIter<Option<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T, const MOST: usize> FromDatum for Many<T, MOST>
where
    Vec<Option<T>>: FromDatum,
{
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, type_oid: pg_sys::Oid) -> Option<Self> {
        if is_null {
            return None;
        }
        let stored = datum.cast_mut_ptr::<pg_sys::varlena>();
        let plain = pg_sys::pg_detoast_datum(stored);
        let array = plain.cast::<pg_sys::ArrayType>();
        let dimensions = array.cast::<u8>().add(size_of::<pg_sys::ArrayType>()).cast::<i32>();
        let count = usize::try_from(pg_sys::ArrayGetNItems((*array).ndim, dimensions)).unwrap_or(0);
        if count > MOST {
            raise(Failure::new(
                PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                format!("an array of {count} elements is too long"),
                format!("Pass at most {MOST} elements in one call."),
            ));
        }
        memory::require(count.saturating_mul(BYTES_FOR_EACH) + 2 * pgrx::varsize_any(plain));
        let elements = Vec::from_polymorphic_datum(pg_sys::Datum::from(plain), false, type_oid);
        if plain != stored {
            pg_sys::pfree(plain.cast());
        }
        elements.map(Many)
    }
}

type Uuids = Many<Uuid>;
type Times = Many<TimestampWithTimeZone>;
/// What a view has gathered, of which there may be as many as its rows have.
pub type GatheredTimes = Many<TimestampWithTimeZone, { usize::MAX }>;
type Intervals = Many<Interval>;
type Texts = Many<Text>;
type Jsonbs = Many<Jsonb>;

argument_type!(Uuids, "uuid[]", Many(Vec::new()));
argument_type!(Times, "timestamp with time zone[]", Many(Vec::new()));
argument_type!(GatheredTimes, "timestamp with time zone[]", Many(Vec::new()));
argument_type!(Intervals, "interval[]", Many(Vec::new()));
argument_type!(Texts, "text[]", Many(Vec::new()));
argument_type!(Jsonbs, "jsonb[]", Many(Vec::new()));
