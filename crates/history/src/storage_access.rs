use crate::name::Name;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name (`f`) of the event that says what the storage is; without it, nothing is known.
pub const STORAGE: &str = "storage";

/// The value of the event [`STORAGE`] where the storage is one register for each key.
pub const STORAGE_IS_REGISTER: &str = "register";

/// The name (`f`) of an event with a list of [`StorageAccess`]. All of them, in order, are the storage's log.
pub const STORAGE_LOG: &str = "storage-log";

/// One read or write that the storage carried out. In JSON a list: `["k0", 3, "write", 10]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(Name, u64, Name, Value)", into = "(Name, u64, Name, Value)")]
pub struct StorageAccess {
    pub key: Name,
    /// Its number in the history.
    pub process: u64,
    /// `read` or `write`.
    pub f: Name,
    /// What was written (of a list, its last element); of a read nothing.
    pub value: Value,
}

impl From<(Name, u64, Name, Value)> for StorageAccess {
    fn from((key, process, f, value): (Name, u64, Name, Value)) -> StorageAccess {
        StorageAccess { key, process, f, value }
    }
}

impl From<StorageAccess> for (Name, u64, Name, Value) {
    fn from(access: StorageAccess) -> (Name, u64, Name, Value) {
        (access.key, access.process, access.f, access.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_access_is_a_list() {
        let access = StorageAccess { key: "k0".into(), process: 3, f: "write".into(), value: json!(10) };
        let written = json!(["k0", 3, "write", 10]);
        assert_eq!(serde_json::to_value(&access).expect("written"), written);
        assert_eq!(serde_json::from_value::<StorageAccess>(written).expect("read"), access);
    }
}
