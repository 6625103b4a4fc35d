//! What there is where clocks cannot be skewed: the same functions, each of which says so.

use super::{ClockError, Observed, Skew, supported};

/// A process whose clocks can be set. There is none here.
#[derive(Debug)]
pub enum Patched {}

impl Patched {
    pub fn set(&self, _: Skew) -> Result<(), ClockError> {
        match *self {}
    }

    pub fn skew(&self) -> Result<Skew, ClockError> {
        match *self {}
    }

    pub fn remove(self) -> Result<(), ClockError> {
        match self {}
    }
}

pub fn install(_: i32) -> Result<Patched, ClockError> {
    refuse()
}

pub fn check(_: i32) -> Result<(), ClockError> {
    refuse()
}

pub fn read_skew(_: i32) -> Result<Option<Skew>, ClockError> {
    refuse()
}

pub fn observe(_: i32) -> Result<Observed, ClockError> {
    refuse()
}

pub fn observe_by(_: i32, _: &std::path::Path) -> Result<Observed, ClockError> {
    refuse()
}

fn refuse<T>() -> Result<T, ClockError> {
    supported()?;
    Err(ClockError::Unsupported("clocks cannot be skewed here"))
}
