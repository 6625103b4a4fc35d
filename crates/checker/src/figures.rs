use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// What a checker counted, the `stats` of its verdict. Figures that another version's verdict lacks are 0.
pub trait Figures: Serialize + DeserializeOwned + Default {
    const CHECKER: &'static str;

    /// Reads `stats`; all are 0 where that is not possible.
    fn read(stats: &Map<String, Value>) -> Self {
        Self::deserialize(Value::Object(stats.clone())).unwrap_or_default()
    }

    fn to_stats(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(stats)) => stats,
            _ => Map::new(),
        }
    }
}

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
