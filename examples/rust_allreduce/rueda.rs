//! The part of rueda.h that this example needs, and a thin safe layer over it. Field for field as in the header; a
//! field that a later header adds at a struct's end is not missed, because `struct_size` says where this one ends.

use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_void};
use std::ptr;

mod c {
    use super::*;

    #[repr(C)]
    pub struct Tensor {
        pub struct_size: usize,
        pub data: *mut c_void,
        pub dtype: i32,
        pub dimensions: i32,
        pub shape: *const i64,
        pub device: i32,
        pub device_index: i32,
    }

    #[repr(C)]
    pub struct OpOptions {
        pub struct_size: usize,
        pub name: *const c_char,
    }

    pub enum Session {}

    extern "C" {
        pub fn rueda_init(options: *const c_void, session: *mut *mut Session) -> i32;
        pub fn rueda_shutdown(session: *mut Session) -> i32;
        pub fn rueda_rank(session: *const Session) -> i32;
        pub fn rueda_size(session: *const Session) -> i32;
        pub fn rueda_allreduce(
            session: *mut Session,
            input: *const Tensor,
            output: *const Tensor,
            op: i32,
            options: *const OpOptions,
        ) -> i32;
        pub fn rueda_error_name(code: i32) -> *const c_char;
        pub fn rueda_last_error() -> *const c_char;
    }
}

/// RUEDA_F32 and RUEDA_SUM.
const F32: i32 = 10;
const SUM: i32 = 1;

/// Why a call failed: "PEER_LOST: rank 1 (host a, pid 17) ...".
#[derive(Debug)]
pub struct Error(String);

impl std::fmt::Display for Error {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

fn check(code: i32) -> Result<(), Error> {
    if code == 0 {
        return Ok(());
    }
    // Both are strings of the library's, valid until this thread's next call.
    let (name, sentence) = unsafe { (CStr::from_ptr(c::rueda_error_name(code)), CStr::from_ptr(c::rueda_last_error())) };
    Err(Error(format!("{}: {}", name.to_string_lossy(), sentence.to_string_lossy())))
}

/// One rank of one job; leaves it when dropped.
pub struct Session(*mut c::Session);

impl Session {
    /// Joins the job that the environment describes; without one, a job of one rank.
    pub fn init() -> Result<Session, Error> {
        let mut session = ptr::null_mut();
        check(unsafe { c::rueda_init(ptr::null(), &mut session) })?;
        Ok(Session(session))
    }

    pub fn rank(&self) -> i32 {
        unsafe { c::rueda_rank(self.0) }
    }

    pub fn size(&self) -> i32 {
        unsafe { c::rueda_size(self.0) }
    }

    /// Sums `values` of all ranks, in place. The slice is borrowed for the call, which is as long as the library has it.
    pub fn sum(&self, name: &str, values: &mut [f32]) -> Result<(), Error> {
        let name = CString::new(name).map_err(|wrong| Error(wrong.to_string()))?;
        let shape = [values.len() as i64];
        let tensor = c::Tensor {
            struct_size: std::mem::size_of::<c::Tensor>(),
            data: values.as_mut_ptr().cast(),
            dtype: F32,
            dimensions: 1,
            shape: shape.as_ptr(),
            device: 0,
            device_index: 0,
        };
        let options = c::OpOptions { struct_size: std::mem::size_of::<c::OpOptions>(), name: name.as_ptr() };
        check(unsafe { c::rueda_allreduce(self.0, &tensor, &tensor, SUM, &options) })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        unsafe { c::rueda_shutdown(self.0) };
    }
}
