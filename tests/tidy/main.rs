//! What keeps the sources tidy: who may import whom, no cycles between modules, words that readers know, links that lead
//! somewhere, files that fit a screen or ten. `exceptions.txt` names what is not tidy yet. It may only become shorter: an
//! exception that is no longer needed fails, too. `TIDY_EXCEPTIONS=1 cargo test --test tidy -- --show-output` prints the
//! lines that would be needed now.

mod cycles;
mod exceptions;
mod imports;
mod lengths;
mod links;
mod scan;
mod sources;
mod words;

use exceptions::assert_tidy;

#[test]
fn crates_import_only_what_lies_beneath_them() {
    assert_tidy("import", imports::problems());
}

#[test]
fn modules_of_a_crate_form_no_cycle() {
    let graphs = cycles::graphs();
    let edges = graphs.iter().flat_map(|graph| graph.problems());
    assert_tidy("cycle", edges.collect());
}

#[test]
fn only_the_cluster_knows_how_nodes_are_kept_apart() {
    assert_tidy("driver-word", words::driver_words());
}

#[test]
fn words_are_those_of_the_field() {
    assert_tidy("word", words::banned());
}

#[test]
fn links_in_documents_lead_somewhere() {
    assert_tidy("link", links::dead());
}

#[test]
fn files_are_not_too_long() {
    assert_tidy("length", lengths::too_long());
}
