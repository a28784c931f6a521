use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use layercast::{Error, Status};

use crate::memory;

/// Done.
pub const LC_OK: i32 = 0;
/// An argument makes no sense: a null pointer, a descriptor that is none, a wrong size, a structure
/// that contradicts itself.
pub const LC_EINVAL: i32 = -1;
/// The media socket is not registered: see lc_register_soc().
pub const LC_ENOTREG: i32 = -2;
/// A node on the way has too little of something; lc_last_error() names node, resource, what is needed
/// and what there is.
pub const LC_EADMIT: i32 = -3;
/// The policy of the flow forbids it.
pub const LC_EPOLICY: i32 = -4;
/// Another request is outstanding, or too many control messages wait.
pub const LC_EBUSY: i32 = -5;
/// There is no such filter for this flow in this place.
pub const LC_ENOFILTER: i32 = -6;
/// Nothing came in time.
pub const LC_ETIMEDOUT: i32 = -7;
/// The flow is over.
pub const LC_ECLOSED: i32 = -8;
/// Sockets, names of hosts, neighbours: lc_last_error() says what.
pub const LC_ENET: i32 = -9;
/// A mistake of this library; nothing was done.
pub const LC_EINTERNAL: i32 = -10;

/// Why a call failed: its code, and what there is to say about it.
pub(crate) struct Fault {
    pub code: i32,
    pub text: String,
}

pub(crate) type Outcome<T = ()> = Result<T, Fault>;

impl Fault {
    pub fn invalid(text: impl Into<String>) -> Fault {
        Fault {
            code: LC_EINVAL,
            text: text.into(),
        }
    }

    pub fn timed_out() -> Fault {
        Status::TimedOut.into()
    }

    pub fn closed() -> Fault {
        Status::Closed.into()
    }

    pub fn of(error: &Error) -> Fault {
        Fault {
            code: number(error.code()),
            text: error.to_string(),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::of(&error)
    }
}

impl From<Status> for Fault {
    fn from(status: Status) -> Fault {
        Error::from(status).into()
    }
}

fn number(code: &str) -> i32 {
    match code {
        "OK" => LC_OK,
        "EINVAL" => LC_EINVAL,
        "ENOTREG" => LC_ENOTREG,
        "EADMIT" => LC_EADMIT,
        "EPOLICY" => LC_EPOLICY,
        "EBUSY" => LC_EBUSY,
        "ENOFILTER" => LC_ENOFILTER,
        "ETIMEDOUT" => LC_ETIMEDOUT,
        "ECLOSED" => LC_ECLOSED,
        "ENET" => LC_ENET,
        _ => LC_EINTERNAL,
    }
}

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the inside of a call: what it fails with becomes a code, and a panic stays on this side.
pub(crate) fn guard(inside: impl FnOnce() -> Outcome) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(inside)).unwrap_or_else(|_| {
        Err(Fault {
            code: LC_EINTERNAL,
            text: "a mistake of the library".into(),
        })
    });
    match outcome {
        Ok(()) => LC_OK,
        Err(Fault { code, text }) => {
            LAST.with_borrow_mut(|last| *last = text);
            code
        }
    }
}

/// Name of a status code, such as "EADMIT"; never null.
#[unsafe(no_mangle)]
pub extern "C" fn lc_status_name(status: i32) -> *const c_char {
    let name: &CStr = match status {
        LC_OK => c"OK",
        LC_EINVAL => c"EINVAL",
        LC_ENOTREG => c"ENOTREG",
        LC_EADMIT => c"EADMIT",
        LC_EPOLICY => c"EPOLICY",
        LC_EBUSY => c"EBUSY",
        LC_ENOFILTER => c"ENOFILTER",
        LC_ETIMEDOUT => c"ETIMEDOUT",
        LC_ECLOSED => c"ECLOSED",
        LC_ENET => c"ENET",
        LC_EINTERNAL => c"EINTERNAL",
        _ => c"?",
    };
    name.as_ptr()
}

/// Why the last call of this thread that failed did so, as text, cut to `size` with its final zero.
/// Gives the length of the whole text.
///
/// # Safety
/// `text` is null or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_last_error(text: *mut c_char, size: usize) -> usize {
    let last = LAST.with_borrow(String::clone);
    // SAFETY: as the caller promises.
    unsafe { memory::write_text(text, size, &last) };
    last.len()
}
