//! search_path, pinned while somebody else's expressions may run as the extension's owner.

use std::ffi::CStr;

use pgrx::pg_sys;

const SEARCH_PATH: &CStr = c"pg_catalog, pg_temp";

/// search_path, held for a while as what it is inside a function with `SET search_path`.
pub struct PinnedSearchPath {
    nest_level: Option<i32>,
}

impl PinnedSearchPath {
    /// Pins it.
    pub fn new() -> PinnedSearchPath {
        // SAFETY: plain reads and calls of GUC functions in the backend's only thread.
        unsafe {
            if CStr::from_ptr(pg_sys::namespace_search_path) == SEARCH_PATH {
                return PinnedSearchPath { nest_level: None };
            }
            let nest_level = pg_sys::NewGUCNestLevel();
            pg_sys::set_config_option(
                c"search_path".as_ptr(),
                SEARCH_PATH.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
            PinnedSearchPath { nest_level: Some(nest_level) }
        }
    }
}

impl Drop for PinnedSearchPath {
    fn drop(&mut self) {
        // On a panic the transaction's abort restores the setting; doing it here as well would be a second time.
        if let (Some(nest_level), false) = (self.nest_level, std::thread::panicking()) {
            // SAFETY: the nest level was opened by this value. Whatever was set meanwhile goes with it, as after VACUUM: a trigger's
            // setting is not the caller's.
            unsafe { pg_sys::AtEOXact_GUC(false, nest_level) }
        }
    }
}
