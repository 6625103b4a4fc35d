//! `lock.toml`: its format, as it is written. docs/your-own-lock.md is its manual.

use crate::client::client_program::OwnOption;
use crate::options::Persistence;
use fencepost_cluster::images::ServerChoice;
use fencepost_history::{Lease, LockKind, Refusal, TimeSpan};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A whole `lock.toml`. `S` is what stands under `service`: a name, or a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LockFile<S> {
    /// One line for `fencepost list`.
    pub about: String,
    pub service: S,
    /// How many servers the service has, where it can have several numbers of them.
    pub nodes: Option<usize>,
    pub server: Option<ServerChoice>,
    pub redis_persistence: Option<Persistence>,
    /// The client's command line; relative to the folder.
    pub client: CommandWords,
    /// A command that prints the name and the version of what is under test, in one line.
    pub version: Option<CommandWords>,
    /// Commands that prepare the copy of the folder on this machine, with the user's environment.
    #[serde(default)]
    pub build: Vec<String>,
    /// Commands that prepare it where the client will run.
    #[serde(default)]
    pub setup: Vec<String>,
    #[serde(default)]
    pub packages: Vec<String>,
    /// The suite of Debian that the packages come from; left out, the default one.
    pub suite: Option<String>,
    #[serde(default)]
    /// Files and folders from elsewhere, relative to the folder, that are copied into it.
    pub files: Vec<PathBuf>,
    /// Who may hold it together.
    #[serde(default)]
    pub kind: LockKind,
    #[serde(default)]
    pub lease: Lease,
    /// The library rounds TTLs up to multiples of this.
    pub ttl_step: Option<TimeSpan>,
    /// What the lock claims, by the names of checkers; left out, whatever can be judged.
    pub properties: Option<Vec<String>>,
    #[serde(default)]
    pub token: bool,
    #[serde(default)]
    pub unique: bool,
    pub start_time: Option<TimeSpan>,
    #[serde(default)]
    pub options: BTreeMap<String, OwnOption>,
    #[serde(default)]
    pub variants: BTreeMap<String, VariantTable>,
}

/// A command: a list of words, or one line that is split as a shell does.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum CommandWords {
    Line(String),
    List(Vec<String>),
}

/// What a variant says otherwise than its lock.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VariantTable {
    #[serde(default)]
    pub about: String,
    /// Added to the client's command line.
    #[serde(default)]
    pub args: Vec<String>,
    /// A command that prints the name and the version of what this variant tests.
    pub version: Option<CommandWords>,
    pub kind: Option<LockKind>,
    pub lease: Option<Lease>,
    pub ttl_step: Option<TimeSpan>,
    pub properties: Option<Vec<String>>,
    pub token: Option<bool>,
    pub unique: Option<bool>,
    /// Other values of the lock's options.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

impl CommandWords {
    /// The words of the command. Errors: an open quotation mark, no words, or an empty first word.
    pub fn words(&self) -> Result<Vec<String>, Refusal> {
        let words = match self {
            CommandWords::Line(line) => shlex::split(line)
                .ok_or_else(|| format!("the command `{line}` has a quotation mark that is not closed"))?,
            CommandWords::List(words) => words.clone(),
        };
        match words.first().map(|word| word.trim()) {
            None => Err(Refusal::new("the command has no words; the first names the program")),
            Some("") => Err(Refusal::new("the first word of the command is empty; it names the program")),
            Some(_) => Ok(words),
        }
    }
}

impl<S> LockFile<S> {
    /// The file as this variant has it. The error names an option that the lock does not have.
    pub fn with_variant(mut self, name: &str, variant: VariantTable) -> Result<LockFile<S>, Refusal> {
        if !variant.about.is_empty() {
            self.about = variant.about;
        }
        self.version = variant.version.or(self.version);
        self.kind = variant.kind.unwrap_or(self.kind);
        self.lease = variant.lease.unwrap_or(self.lease);
        self.ttl_step = variant.ttl_step.or(self.ttl_step);
        self.properties = variant.properties.or(self.properties);
        self.token = variant.token.unwrap_or(self.token);
        self.unique = variant.unique.unwrap_or(self.unique);
        for (option, value) in variant.options {
            let known = self.options.get_mut(&option);
            let known = known.ok_or_else(|| {
                format!("the variant {name} sets the option {option}, which has no table [options.{option}]")
            })?;
            known.default = value;
        }
        Ok(self)
    }
}
