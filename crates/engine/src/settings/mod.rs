//! The options of a run, and what they name, before anything starts.

pub(crate) mod command_line;
pub(crate) mod existing_options;
pub(crate) mod help;
pub(crate) mod lists;
pub(crate) mod names;
pub(crate) mod node_specs;
pub(crate) mod option_facts;
pub(crate) mod options;
pub(crate) mod other_names;
pub(crate) mod ranges;
pub(crate) mod reference;
pub(crate) mod section_length;
pub(crate) mod sections;
pub(crate) mod shaping;
pub(crate) mod topology;
pub(crate) mod validation;
