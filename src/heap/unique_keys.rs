//! Which indexes of a table keep keys apart.

use std::ffi::CStr;
use std::ptr::null_mut;

use pgrx::pg_sys::{self, Oid};

use crate::heap::relation::{relation_oid, Table};
use crate::heap::writer::Writer;

impl Table {
    /// Whether no row can refuse another but by the key of this index, and a primary key that is new for certain: no other unique or
    /// exclusion index; nor a CHECK a row.
    pub fn is_kept_by(&self, index: &CStr) -> bool {
        let writer = self.writer();
        let key = relation_oid(self.schema, index);
        // SAFETY: the relation is open for writing, and so are its indexes.
        unsafe {
            writer.open_indexes();
            let constraints = (*(*self.relation).rd_att).constr;
            let checks = !constraints.is_null() && (*constraints).num_check > 0;
            let (relations, infos) = writer.indexes();
            !checks
                && relations.iter().zip(infos).all(|(relation, info)| {
                    let keeps = (**info).ii_Unique || !(**info).ii_ExclusionOps.is_null();
                    !keeps || (**relation).rd_id == key || (*(**relation).rd_index).indisprimary
                })
        }
    }
}

impl Writer {
    /// The table's indexes, and what the executor knows of each. SAFETY: the indexes are open, and stay so.
    pub(super) unsafe fn indexes(&self) -> (&[pg_sys::Relation], &[*mut pg_sys::IndexInfo]) {
        let count = (*self.info).ri_NumIndices as usize;
        if count == 0 {
            return (&[], &[]);
        }
        let relations = std::slice::from_raw_parts((*self.info).ri_IndexRelationDescs, count);
        (relations, std::slice::from_raw_parts((*self.info).ri_IndexRelationInfo, count))
    }

    /// The indexes that are unique by the columns of this one: while it is built anew (REINDEX CONCURRENTLY) there are two, and ON CONFLICT
    /// takes both as well. SAFETY: the indexes are open.
    pub(super) unsafe fn same_keys(&self, index: Oid) -> *mut pg_sys::List {
        let (relations, infos) = self.indexes();
        let columns = |info: *mut pg_sys::IndexInfo| {
            let plain = (*info).ii_Unique && (*info).ii_Predicate.is_null() && (*info).ii_Expressions.is_null();
            let (mut columns, count) = ((*info).ii_IndexAttrNumbers, (*info).ii_NumIndexKeyAttrs as usize);
            columns[count..].fill(0);
            plain.then_some(columns)
        };
        let wanted =
            relations.iter().position(|relation| (**relation).rd_id == index).and_then(|at| columns(infos[at]));
        let same = relations.iter().zip(infos).filter(|(_, info)| wanted.is_some() && columns(**info) == wanted);
        same.fold(null_mut(), |list, (relation, _)| pg_sys::lappend_oid(list, (**relation).rd_id))
    }
}
