//! Rights of users across an update.

use pgrx::{pg_sys, Spi};

use crate::arguments;
use crate::error::{raise, Failure};
use crate::statement;
use crate::store::Session;

/// Gives users, monitors and workers the rights on what an update has added. What somebody took back from one of them before stays taken.
pub fn again(session: &Session) {
    statement!(GRANTS_AGAIN = "grants_again"());
    let _theirs = UsersGrants::begin();
    let taken: Vec<String> = GRANTS_AGAIN.run(session, arguments![]).first().map_or(Vec::new(), |row| row.must(2));
    for revoke in taken {
        if let Err(error) = Spi::run(&revoke) {
            raise(Failure::internal(format!("{revoke}: {error}")));
        }
    }
}

/// While it lives, a GRANT is a user's, although an extension's script is at work. One of the script's own would count as given
/// by the extension, and pg_dump would leave it out.
struct UsersGrants {
    before: bool,
}

impl UsersGrants {
    fn begin() -> UsersGrants {
        // SAFETY: the backend's only thread.
        unsafe {
            let before = pg_sys::creating_extension;
            pg_sys::creating_extension = false;
            UsersGrants { before }
        }
    }
}

impl Drop for UsersGrants {
    fn drop(&mut self) {
        // SAFETY: as above. (After an error the script's own end resets it.)
        unsafe { pg_sys::creating_extension = self.before && !std::thread::panicking() }
    }
}
