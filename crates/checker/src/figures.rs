//! What a checker counted: a type for each, which stands in its verdict as `stats`.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The figures of one checker. A verdict of another version may lack some: they are 0 then.
pub trait Figures: Serialize + DeserializeOwned + Default {
    const CHECKER: &'static str;

    /// Reads `stats`; all are 0 where that is not possible.
    fn read(stats: &Map<String, Value>) -> Self {
        Self::deserialize(Value::Object(stats.clone())).unwrap_or_default()
    }

    /// As they stand in `stats`.
    fn to_stats(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(stats)) => stats,
            _ => Map::new(),
        }
    }
}

/// Defines the figures of a checker.
macro_rules! figures {
    ($(#[$about:meta])* $name:ident of $checker:literal { $($(#[$field_about:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[$field_about])* pub $field: $type,)*
        }

        impl crate::figures::Figures for $name {
            const CHECKER: &'static str = $checker;
        }
    };
}

pub(crate) use figures;
