//! Completions for shells and manual pages, made from the definition of the command line.

use crate::output::Output;
use anyhow::Result;
use clap::Command;
use clap_complete::aot;
use fencepost_engine::BadUsage;
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

/// `fencepost completions SHELL`.
pub fn completions(shell: Shell, mut program: Command) -> Result<i32> {
    let shell = match shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    let mut script = Vec::new();
    aot::generate(shell, &mut program, "fencepost", &mut script);
    print(&script)
}

/// `fencepost man [FOLDER]`.
pub fn man(folder: Option<&Path>, program: &Command) -> Result<i32> {
    let Some(folder) = folder else { return print(&page(program.clone())?) };
    if !folder.is_dir() {
        return Err(BadUsage::new(format!("there is no folder {}; make it first", folder.display())).into());
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

/// The pages of the program and of each of its commands, with the names of their files.
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
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .source(concat!("Fencepost ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)?;
    Ok(page)
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
        assert!(text("fencepost-lock-check.1").contains("fencepost lock check"));
        assert!(!pages.iter().any(|(name, _)| name.contains("supervise")));
    }
}
