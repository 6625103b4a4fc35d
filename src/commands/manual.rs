//! Completions for shells and manual pages, made from the definition of the command line.

use crate::examples;
use crate::output::Output;
use anyhow::Result;
use clap::Command;
use clap::builder::PossibleValuesParser;
use clap_complete::aot;
use fencepost_engine::refuse;
use fencepost_history::run::write_whole;
use std::io::Write;
use std::path::Path;

/// Shells whose completions are written.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub fn completions(shell: Shell, mut program: Command) -> Result<i32> {
    let shell = match shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    let commands: Vec<String> =
        program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for command in commands {
        program = program.mut_subcommand(command, with_names);
    }
    let mut script = Vec::new();
    aot::generate(shell, &mut program, "fencepost", &mut script);
    print(&script)
}

/// The command with the names that options take, for completions; options also take folders and lists.
fn with_names(command: Command) -> Command {
    let known: Vec<(clap::Id, Vec<&str>)> = command
        .get_arguments()
        .filter_map(|argument| Some((argument.get_id().clone(), names_of(argument.get_id().as_str())?)))
        .collect();
    known.into_iter().fold(command, |command, (id, names)| {
        command.mut_arg(id, |argument| argument.value_parser(PossibleValuesParser::new(names)))
    })
}

fn names_of(argument: &str) -> Option<Vec<&'static str>> {
    Some(match argument {
        "lock" | "locks" | "against" => fencepost_locks::registry().iter().map(|lock| lock.name).collect(),
        "nemesis" | "nemeses" => fencepost_nemesis::registry().iter().map(|nemesis| nemesis.name()).collect(),
        "guard" => fencepost_storage::guards().iter().map(|guard| guard.name).collect(),
        "workload" => fencepost_workloads::registry().iter().map(|workload| workload.name).collect(),
        "names" => {
            fencepost_engine::scenario::registry().iter().map(|scenario| scenario.name.as_str()).collect()
        }
        _ => return None,
    })
}

pub fn man(folder: Option<&Path>, program: &Command) -> Result<i32> {
    let Some(folder) = folder else { return print(&page(program.clone())?) };
    if !folder.is_dir() {
        refuse!("there is no folder {}; make it first", folder.display());
    }
    for (name, page) in pages(program)? {
        write_whole(&folder.join(name), &page)?;
    }
    Ok(0)
}

fn print(text: &[u8]) -> Result<i32> {
    Output.write_all(text)?;
    Ok(0)
}

fn pages(program: &Command) -> Result<Vec<(String, Vec<u8>)>> {
    let mut pages = vec![("fencepost.1".to_owned(), page(program.clone())?)];
    add_pages(&mut pages, "fencepost", program)?;
    Ok(pages)
}

/// Adds the pages of the commands beneath one; `called` is what is typed for it (`fencepost lock`).
fn add_pages(pages: &mut Vec<(String, Vec<u8>)>, called: &str, command: &Command) -> Result<()> {
    for beneath in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        // As its own page it is called as it is typed.
        let called = format!("{called} {}", beneath.get_name());
        let name = called.replace(' ', "-");
        pages.push((format!("{name}.1"), page(beneath.clone().display_name(&name).bin_name(&called))?));
        add_pages(pages, &called, beneath)?;
    }
    Ok(())
}

fn page(command: Command) -> Result<Vec<u8>> {
    let usage = command.clone().render_usage().to_string();
    let called = command.get_bin_name().unwrap_or("fencepost").trim_start_matches("fencepost").trim();
    let about = examples::about(called);
    let has_commands = command.has_subcommands();
    // `help` has no page.
    let man = clap_mangen::Man::new(command.disable_help_subcommand(true))
        .source(concat!("Fencepost ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    // Its own synopsis would name every option.
    writeln!(page, ".SH SYNOPSIS\n{}", roff(usage.trim_start_matches("Usage: ")))?;
    man.render_description_section(&mut page)?;
    let rows = about.into_iter().flat_map(|about| &about.lines);
    section(&mut page, "EXAMPLES", rows.map(|(line, does)| (line.clone(), does.as_str())))?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    let exits = about.into_iter().flat_map(|about| about.exits());
    section(&mut page, "EXIT STATUS", exits.map(|(code, meaning)| (code.to_string(), meaning.as_str())))?;
    let see = about.into_iter().flat_map(|about| &about.see);
    let see: Vec<String> =
        see.map(|name| format!("\\fBfencepost\\-{}\\fR(1)", roff(&name.replace(' ', "-")))).collect();
    if !see.is_empty() {
        writeln!(page, ".SH \"SEE ALSO\"\n{}", see.join(", "))?;
    }
    Ok(page)
}

/// A section of terms and what they mean.
fn section<'a>(page: &mut Vec<u8>, title: &str, rows: impl Iterator<Item = (String, &'a str)>) -> Result<()> {
    writeln!(page, ".SH \"{title}\"")?;
    for (term, meaning) in rows {
        writeln!(page, ".TP\n\\fB{}\\fR\n{}", roff(&term), roff(meaning))?;
    }
    Ok(())
}

fn roff(text: &str) -> String {
    text.replace('\\', "\\\\").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn each_command_has_a_page_with_its_options() {
        let pages = pages(&Cli::command()).unwrap();
        let text = |name: &str| {
            let page = pages.iter().find(|(file, _)| file == name);
            String::from_utf8(page.unwrap_or_else(|| panic!("no {name}")).1.clone()).unwrap()
        };
        assert!(text("fencepost.1").contains("fencepost\\-test(1)"), "{}", text("fencepost.1"));
        let test = text("fencepost-test.1");
        assert!(test.contains("fencepost\\-test") && test.contains("\\-\\-time\\-limit"), "{test}");
        assert!(test.contains("fencepost test [OPTIONS]") && test.contains("SEE ALSO"), "{test}");
        assert!(text("fencepost-scenario.1").contains("one did not happen"));
        assert!(text("fencepost-lock-check.1").contains("fencepost lock check"));
        assert!(!pages.iter().any(|(name, _)| name.contains("supervise")));
    }
}
