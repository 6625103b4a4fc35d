use super::super::{EventRefusal, refuse_others_beside};

/// An operation with its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockOp {
    Acquire(u32),
    Release(u32),
}

impl LockOp {
    pub(super) fn process(self) -> u32 {
        let (LockOp::Acquire(process) | LockOp::Release(process)) = self;
        process
    }

    pub(super) fn step(self, holder: Option<u32>) -> Option<Option<u32>> {
        match self {
            LockOp::Acquire(process) => holder.is_none().then_some(Some(process)),
            LockOp::Release(process) => (holder == Some(process)).then_some(None),
        }
    }

    pub(super) fn read(process: u64, f: &str, value: &str) -> Result<LockOp, EventRefusal> {
        let process =
            u32::try_from(process).map_err(|_| EventRefusal::WrongValue("a process number below 2^32"))?;
        match f {
            "acquire" => refuse_others_beside(value).map(|()| LockOp::Acquire(process)),
            "release" => Ok(LockOp::Release(process)),
            _ => Err(EventRefusal::UnknownOperation("acquire and release")),
        }
    }

    pub(super) fn show(self) -> String {
        match self {
            LockOp::Acquire(_) => "acquire".to_owned(),
            LockOp::Release(_) => "release".to_owned(),
        }
    }
}
