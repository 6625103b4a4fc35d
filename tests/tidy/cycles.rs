//! Which module of a crate uses which, read from the paths in its code, and where that goes round in a
//! circle.
//!
//! A module that only makes names of its submodules public (`pub use`) does not use them; who takes such a
//! name uses the module that has it. What is for tests only does not count.

use crate::scan::code_without_tests;
use crate::sources::{files, root, text};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A path of modules, from the root of the crate (which is empty).
type ModulePath = Vec<String>;

#[derive(Default)]
struct Module {
    children: BTreeSet<String>,
    /// Paths that its code names.
    used: Vec<Vec<String>>,
    /// Names that it makes public of other modules: name, and where it comes from.
    reexported: BTreeMap<String, Vec<String>>,
}

/// The modules of a crate.
pub struct Graph {
    folder: PathBuf,
    modules: BTreeMap<ModulePath, Module>,
}

/// One graph for each crate of the workspace.
pub fn graphs() -> Vec<Graph> {
    let roots = files(&["rs"]).into_iter().filter(|file| file.ends_with("src/lib.rs"));
    let graphs: Vec<Graph> = roots.map(|lib| Graph::read(&lib)).collect();
    assert!(graphs.len() > 5, "only {} crates were found", graphs.len());
    graphs
}

impl Graph {
    fn read(lib: &Path) -> Graph {
        let folder = lib.parent().expect("lib.rs lies in a folder").to_owned();
        let mut graph = Graph { folder, modules: BTreeMap::new() };
        let folder = graph.folder.clone();
        graph.read_module(Vec::new(), lib, &folder);
        graph
    }

    fn read_module(&mut self, path: ModulePath, file: &Path, submodules: &Path) {
        let code = code_without_tests(&text(file));
        let tokens = tokens(&code);
        let mut module = Module::default();
        let mut at = 0;
        while at < tokens.len() {
            match tokens[at..].iter().take(5).map(String::as_str).collect::<Vec<_>>()[..] {
                ["mod", name, ";", ..] => {
                    module.children.insert(name.to_owned());
                    at += 3;
                }
                ["pub", "use", ..] => at = reexport(&mut module, &path, &tokens, at + 2),
                ["pub", "(", _, ")", "use", ..] => at = reexport(&mut module, &path, &tokens, at + 5),
                _ => {
                    let (paths, next) = paths_at(&path, &tokens, at, &module.children);
                    module.used.extend(paths);
                    at = next;
                }
            }
        }
        let children = module.children.clone();
        self.modules.insert(path.clone(), module);
        for child in children {
            let of_child = submodules.join(&child);
            let candidates = [submodules.join(format!("{child}.rs")), of_child.join("mod.rs")];
            let Some(file) = candidates.iter().find(|file| root().join(file).is_file()) else { continue };
            self.read_module([&path[..], &[child]].concat(), file, &of_child);
        }
    }

    /// The module that has what this path names.
    fn resolve(&self, path: &[String]) -> Option<ModulePath> {
        let mut module: ModulePath = Vec::new();
        for (at, segment) in path.iter().enumerate() {
            let there = self.modules.get(&module)?;
            if there.children.contains(segment) {
                module.push(segment.clone());
            } else if let Some(from) = there.reexported.get(segment) {
                let rest: Vec<String> = from.iter().chain(&path[at + 1..]).cloned().collect();
                return (rest.len() < 20).then(|| self.resolve(&rest)).flatten();
            } else {
                return Some(module);
            }
        }
        Some(module)
    }

    /// Which module uses which other.
    fn edges(&self) -> BTreeSet<(ModulePath, ModulePath)> {
        let mut edges = BTreeSet::new();
        for (path, module) in &self.modules {
            for target in module.used.iter().filter_map(|used| self.resolve(used)) {
                if target != *path && self.modules.contains_key(&target) {
                    edges.insert((path.clone(), target));
                }
            }
        }
        edges
    }

    /// Every use that is part of a circle.
    pub fn problems(&self) -> Vec<String> {
        let edges = self.edges();
        let circular = edges.iter().filter(|(from, to)| reaches(&edges, to, from));
        let name = |path: &ModulePath| {
            let inner = if path.is_empty() { "lib".to_owned() } else { path.join("::") };
            format!("{}/{inner}", self.folder.display())
        };
        let problem = |(from, to): &(ModulePath, ModulePath)| {
            format!("{} uses {}, which uses it in turn, if only by way of others", name(from), name(to))
        };
        circular.map(problem).collect()
    }
}

fn reaches(edges: &BTreeSet<(ModulePath, ModulePath)>, from: &ModulePath, to: &ModulePath) -> bool {
    let mut visited = BTreeSet::from([from]);
    let mut waiting = vec![from];
    while let Some(here) = waiting.pop() {
        if here == to {
            return true;
        }
        let next = edges.iter().filter(|(start, _)| start == here).map(|(_, end)| end);
        waiting.extend(next.filter(|end| visited.insert(end)));
    }
    false
}

/// Names, `::` and single characters.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let is_name = |char: char| char.is_alphanumeric() || char == '_';
        let length = match first {
            _ if is_name(first) => rest.find(|char| !is_name(char)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        if !first.is_whitespace() {
            tokens.push(rest[..length].to_owned());
        }
        rest = &rest[length..];
    }
    tokens
}

/// Reads `a::{b, c as d};` behind `pub use`.
fn reexport(module: &mut Module, path: &[String], tokens: &[String], at: usize) -> usize {
    let mut found = Vec::new();
    let end = tree(tokens, at, &[], &mut found);
    for (from, alias) in found {
        let absolute = absolute(path, &from, &module.children);
        if let (Some(absolute), Some(name)) = (absolute, alias) {
            module.reexported.insert(name, absolute);
        }
    }
    end
}

/// The paths that begin at this token, from the root of the crate, and the token behind them.
fn paths_at(
    path: &[String],
    tokens: &[String],
    at: usize,
    children: &BTreeSet<String>,
) -> (Vec<Vec<String>>, usize) {
    let begins = tokens[at].as_str();
    let behind = tokens.get(at + 1).is_some_and(|next| next == "::");
    let after_path = at > 0 && tokens[at - 1] == "::";
    let is_ours = ["crate", "super", "self"].contains(&begins) || children.contains(begins);
    if !(is_ours && behind) || after_path {
        return (Vec::new(), at + 1);
    }
    let mut found = Vec::new();
    let end = tree(tokens, at, &[], &mut found);
    let paths = found.into_iter().filter_map(|(from, _)| absolute(path, &from, children)).collect();
    (paths, end.max(at + 1))
}

/// Reads a tree of names: each path with the name that it has here.
fn tree(
    tokens: &[String],
    mut at: usize,
    before: &[String],
    found: &mut Vec<(Vec<String>, Option<String>)>,
) -> usize {
    let mut path = before.to_vec();
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    let next = tree(tokens, at, &path, found);
                    at = if tokens.get(next).is_some_and(|token| token == ",") {
                        next + 1
                    } else {
                        next.max(at + 1)
                    };
                }
                return at + 1;
            }
            Some(name)
                if name == "*" || name.starts_with(|char: char| char.is_alphabetic() || char == '_') =>
            {
                path.push(name.to_owned());
                at += 1;
            }
            _ => return at,
        }
        match tokens.get(at).map(String::as_str) {
            Some("::") if tokens.get(at + 1).is_some_and(|next| next != "<") => at += 1,
            Some("as") => {
                found.push((path, tokens.get(at + 1).cloned()));
                return at + 2;
            }
            _ => {
                let name = path.last().cloned();
                found.push((path, name));
                return at;
            }
        }
    }
}

/// The path from the root of the crate; none for what belongs to others.
fn absolute(module: &[String], path: &[String], children: &BTreeSet<String>) -> Option<Vec<String>> {
    let mut base = module.to_vec();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|segment| segment == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        name if children.contains(name) => {}
        _ => return None,
    }
    let rest = rest.iter().filter(|segment| *segment != "self" && *segment != "*");
    Some(base.into_iter().chain(rest.cloned()).collect())
}

#[test]
fn uses_are_read_and_circles_are_found() {
    let mut graph = Graph { folder: PathBuf::from("x"), modules: BTreeMap::new() };
    let mut add = |path: &[&str], code: &str| {
        let path: ModulePath = path.iter().map(|part| (*part).to_owned()).collect();
        let tokens = tokens(code);
        let mut module = Module::default();
        let mut at = 0;
        while at < tokens.len() {
            if tokens[at] == "mod" {
                module.children.insert(tokens[at + 1].clone());
                at += 3;
            } else if tokens[at] == "pub" {
                at = reexport(&mut module, &path, &tokens, at + 2);
            } else {
                let (paths, next) = paths_at(&path, &tokens, at, &module.children);
                module.used.extend(paths);
                at = next;
            }
        }
        graph.modules.insert(path, module);
    };
    add(&[], "mod a; mod b; mod c; pub use a::{Thing as Other, More};");
    add(&["a"], "use crate::b::f;");
    add(&["b"], "use crate::{c::g, Other};");
    add(&["c"], "fn h() { std::mem::swap() }");
    let problems = graph.problems();
    assert!(problems.len() == 2, "{problems:?}");
    assert!(problems[0].starts_with("x/a uses x/b,") && problems[1].starts_with("x/b uses x/a,"));
}
