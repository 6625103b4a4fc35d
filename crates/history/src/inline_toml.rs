use serde_json::Value;

/// A value in TOML, on one line. Fields without a value are left out.
pub fn inline_toml(json: &Value) -> String {
    match json {
        Value::Null => quoted(""),
        Value::Bool(_) | Value::Number(_) => json.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline_toml).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, field)| !field.is_null());
            let fields = fields.map(|(name, field)| format!("{} = {}", name_of(name), inline_toml(field)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn name_of(name: &str) -> String {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "-_".contains(sign);
    if !name.is_empty() && name.chars().all(plain) { name.to_owned() } else { quoted(name) }
}
