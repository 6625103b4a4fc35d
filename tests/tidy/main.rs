//! What keeps the sources tidy: which crate may import which, no cycles between modules, known words, links
//! that lead somewhere, files that fit a screen or ten, crates that do not grow, licences of dependencies,
//! tests without clocks.

mod ci_test;
mod cycles;
mod dependencies;
mod imports;
mod lengths;
mod links;
mod named_tests;
mod scan;
mod sizes;
mod sources;
mod waits;
mod words;

/// Fails with one line for each problem.
#[track_caller]
fn assert_tidy(problems: &[String]) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn crates_import_only_what_lies_beneath_them() {
    assert_tidy(&imports::problems());
}

#[test]
fn crates_of_their_own_can_be_built_where_they_lie() {
    assert_tidy(&imports::swallowed_by_the_workspace());
}

#[test]
fn modules_of_a_crate_form_no_cycle() {
    let graphs = cycles::graphs();
    assert_tidy(&graphs.iter().flat_map(|graph| graph.problems()).collect::<Vec<_>>());
}

#[test]
fn only_the_cluster_knows_how_nodes_are_kept_apart() {
    assert_tidy(&words::driver_words());
}

#[test]
fn words_are_those_of_the_field() {
    assert_tidy(&words::banned());
}

#[test]
fn sources_that_the_architecture_names_are_there() {
    assert_tidy(&links::moved_sources());
}

#[test]
fn links_in_documents_lead_somewhere() {
    assert_tidy(&links::dead());
}

#[test]
fn each_promise_of_security_names_tests_that_there_are() {
    assert_tidy(&named_tests::missing());
}

#[test]
fn files_are_not_too_long() {
    assert_tidy(&lengths::too_long());
}

#[test]
fn no_part_grows_beyond_its_ceiling() {
    assert_tidy(&sizes::problems());
}

#[test]
fn comments_are_not_too_wide() {
    assert_tidy(&lengths::too_wide());
}

#[test]
fn dependencies_have_allowed_licences_and_one_source() {
    assert_tidy(&dependencies::problems());
}

#[test]
fn no_test_waits_for_a_clock() {
    assert_tidy(&waits::problems());
}

#[test]
fn tests_that_passed_only_alone_are_listed_once() {
    assert_tidy(&ci_test::listed_twice());
}
