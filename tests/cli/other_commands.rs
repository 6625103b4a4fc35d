//! What stands around runs: exports, compressed histories, fencepost.toml, completions, man pages, serve. No
//! cluster is started.

use crate::common::fencepost;
use crate::common::server::Server;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Output;

const FORMATS: &[&str] = &["edn", "csv"];

const HISTORY: &str = include_str!("../../crates/report/src/fixtures/redlock-clock-jump.jsonl");

/// The folder of a run, as far as exporting needs it.
fn run(results: &Path) -> PathBuf {
    let folder = results.join("redlock-increment-clock-jump-20260214T093015Z-7");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("history.jsonl"), HISTORY).expect("a file");
    folder
}

pub fn ran(folder: &Path, args: &str) -> Output {
    let mut command = fencepost(&args.split_whitespace().collect::<Vec<_>>());
    command.current_dir(folder).output().expect("the program starts")
}

/// Runs with these arguments, expects success, and gives what stood on standard output.
fn output_of(folder: &Path, args: &str) -> String {
    let output = ran(folder, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args}: {stderr}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs with these arguments, expects a refusal as bad usage, and gives the sentence.
fn refused(folder: &Path, args: &str) -> String {
    let output = ran(folder, args);
    assert_eq!(output.status.code(), Some(254), "{args}");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(stderr.trim().lines().count(), 1, "one sentence: {stderr}");
    stderr
}

#[test]
fn an_exported_history_is_judged_like_the_original_compressed_or_not() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let (at, folder) = (results.path(), run(results.path()));
    let name = folder.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
    for format in FORMATS {
        assert_eq!(output_of(at, &format!("export {name} --format {format} --out plain.{format}")), "");
    }
    let mut compressed = Vec::new();
    fencepost_history::compress(HISTORY.as_bytes(), &mut compressed).expect("compressed");
    fs::write(folder.join("history.jsonl.gz"), compressed).expect("a file");
    fs::remove_file(folder.join("history.jsonl")).expect("it was there");
    for format in FORMATS {
        output_of(at, &format!("export {name} --format {format} --out again.{format}"));
        let read = |which: &str| fs::read(at.join(format!("{which}.{format}"))).expect("it is there");
        assert_eq!(read("plain"), read("again"), "{format}");
    }
    assert_eq!(
        output_of(at, &format!("export {name} --format edn")),
        fs::read_to_string(at.join("plain.edn")).unwrap()
    );
    fs::write(at.join("plain.jsonl"), HISTORY).expect("a file");
    let verdict = |file: &str| {
        let output = ran(at, &format!("check --model owner-mutex --explain --skip read,write {file}"));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        (output.status.code(), text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>())
    };
    let (code, explained) = verdict("plain.jsonl");
    assert_eq!(code, Some(1), "the lock was granted twice in this history");
    assert_eq!(verdict("plain.edn"), (code, explained));
}

#[test]
fn a_run_that_goes_on_is_not_judged() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = run(results.path());
    // As the program does that makes the run.
    let held = fs::File::open(&folder).expect("a folder");
    held.lock().expect("a file system that knows locks");
    let name = folder.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    let refusal = refused(results.path(), &format!("analyze {name}"));
    assert!(refusal.contains(&format!("the run in {name} goes on")), "{refusal}");
    assert!(!folder.join("verdict.json").exists() && !folder.join("report.html").exists());
}

#[test]
fn a_failed_export_leaves_nothing_and_says_what_to_do() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = run(results.path());
    fs::write(folder.join("history.jsonl"), HISTORY.replacen("\"acquire\"", "acquire", 1)).expect("a file");
    let refusal = refused(&folder, "export . --format csv --out out.csv");
    assert!(refusal.contains("history.jsonl, line 2"), "{refusal}");
    assert!(refused(&folder, "export . --format csv").contains("history.jsonl, line 2"));
    assert!(!folder.join("out.csv").exists() && !folder.join("out.csv.partial").exists());
}

#[test]
fn a_file_of_options_is_read_and_the_command_line_wins() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    fs::write(at.join("fencepost.toml"), "[test]\nlock = \"nowhere\"\n").expect("a file");
    assert!(refused(at, "test").contains("unknown lock \"nowhere\""));
    let elsewhere = refused(at, "test --lock elsewhere");
    assert!(elsewhere.contains("unknown lock \"elsewhere\"") && elsewhere.contains("such as ./elsewhere"));
    fs::create_dir(at.join("elsewhere")).expect("a folder");
    assert!(refused(at, "test --lock elsewhere").contains("did you mean the folder ./elsewhere?"));
    assert!(refused(at, "test --config none --lock etcd --guard tokn").contains("did you mean \"token\""));
    fs::write(at.join("other.toml"), "[test]\n\ntime_limit = \"3s\"\n").expect("a file");
    let mistake = refused(at, "test --config other.toml");
    assert_eq!(
        mistake.trim(),
        "fencepost: other.toml, line 3: unknown key of [test] \"time_limit\": did you mean \"time-limit\"?"
    );
    assert!(refused(at, "--config missing.toml test").contains("cannot read missing.toml"));
    output_of(at, "list guards");
}

#[test]
fn lines_of_the_log_have_colours_only_where_they_are_shown() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // `script` gives a terminal; no engine answers there, and the log says so.
    let stderr_on_a_terminal = |redirection: &str| {
        let words = format!("{} images list {redirection}", crate::PROGRAM);
        let mut script = std::process::Command::new("script");
        script
            .args(["-qec", &words, "/dev/null"])
            .current_dir(folder.path())
            .stdin(std::process::Stdio::null());
        script.env("DOCKER_HOST", "tcp://127.0.0.1:1").env("RUST_LOG", "debug").env("SHELL", "/bin/sh");
        script
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR")
            .env_remove("CLICOLOR_FORCE");
        String::from_utf8(script.output().expect("script, of util-linux").stdout).expect("UTF-8")
    };
    let shown = stderr_on_a_terminal("");
    assert!(shown.contains("DEBUG") && shown.contains("\u{1b}["), "{shown:?}");
    // Standard output is a terminal still.
    stderr_on_a_terminal("2>log");
    let log = fs::read_to_string(folder.path().join("log")).expect("it was written");
    // Of a library there is nothing: it would log addresses, and what stands in them.
    assert!(
        log.contains("DEBUG no Docker engine answers") && !log.contains("hyper") && !log.contains('\u{1b}'),
        "{log:?}"
    );
}

#[test]
fn shells_and_man_know_the_commands() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for shell in ["bash", "zsh", "fish"] {
        let script = output_of(folder.path(), &format!("completions {shell}"));
        assert!(script.contains("time-limit") && script.contains("fencepost"), "{shell}");
    }
    assert!(output_of(folder.path(), "man").starts_with(".ie"), "it is a man page");
    output_of(folder.path(), "man .");
    let page = fs::read_to_string(folder.path().join("fencepost-export.1")).expect("a page");
    assert!(page.contains("\\-\\-format"), "{page}");
    assert!(refused(folder.path(), "man nowhere").contains("make it first"));
}

#[test]
fn collecting_says_what_goes_and_passes_over_what_is_no_run() {
    let results = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(results.path().join("my-notes")).expect("a folder");
    run(results.path());
    let printed = output_of(results.path(), "gc --results . --keep 0");
    assert_eq!(
        printed, "0 of 1 run removed, 0.0 MB\n",
        "without its settings it is not known what it is a run of"
    );
    assert!(
        refused(results.path(), "gc --results nowhere").contains("cannot read the results folder nowhere")
    );
}

#[test]
fn the_server_answers_until_ctrl_c() {
    let results = tempfile::tempdir().expect("a temporary folder");
    run(results.path());
    let mut server = Server::start(results.path());
    let address = &server.address;
    let mut stream = TcpStream::connect(address).expect("it listens");
    // Not through a library: such a path would not leave it.
    let request =
        format!("GET /files/../../../../etc/passwd HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 404") && !answer.contains("root:"), "{answer}");
    // Some programs close their direction once they have asked.
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).expect("it reads");
    stream.shutdown(std::net::Shutdown::Write).expect("the connection is there");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let process = nix::unistd::Pid::from_raw(i32::try_from(server.process.id()).expect("a process number"));
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGINT).expect("it runs");
    assert_eq!(server.process.wait().expect("it ended").code(), Some(0));
}

/// The folder of a run with a violation, not judged yet.
pub fn violation(results: &Path) -> PathBuf {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/redlock-clock-jump");
    let folder = results.join("run");
    fs::create_dir(&folder).expect("a folder");
    for name in ["run.toml", "history.jsonl"] {
        fs::copy(example.join(name), folder.join(name)).expect("the example has its files");
    }
    folder
}

/// Judges the run of this folder in a shell that has done something before.
pub fn analyzed_after(preparation: &str, folder: &Path) -> Output {
    let script = format!("{preparation} && exec \"$0\" analyze \"$1\"");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script, crate::PROGRAM]).arg(folder);
    shell.output().expect("the program starts")
}

#[test]
fn a_verdict_stands_where_no_file_may_grow() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = violation(results.path());
    let output = analyzed_after("ulimit -f 1", &folder);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{:?}: {stderr}", output.status);
    assert!(
        stderr.contains("the verdict above stands, but one of its files could not be written"),
        "{stderr}"
    );
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("The lock did not hold"), "{stdout}");
}

/// A folder that came from elsewhere, whose files are links and pipes.
#[test]
fn analyzing_a_folder_writes_nowhere_else() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let (folder, outside) = (violation(results.path()), results.path().join("outside"));
    fs::create_dir(&outside).expect("a folder");
    fs::write(outside.join("victim"), "kept").expect("a file");
    std::os::unix::fs::symlink(outside.join("victim"), folder.join("report.html")).expect("a link");
    let pipe = folder.join("verdict.json");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let analyze = || {
        let output = ran(results.path(), "analyze run");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(fs::read_to_string(outside.join("victim")).expect("a file"), "kept");
        assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 1);
        stderr
    };
    assert_eq!(analyze(), "");
    assert!(pipe.is_file(), "the pipe was replaced by the verdict");
    fs::remove_dir_all(folder.join("plots")).expect("plots are drawn");
    std::os::unix::fs::symlink(&outside, folder.join("plots")).expect("a link");
    assert!(analyze().contains("plots is a link"));
}

#[test]
fn files_that_a_user_names_are_written_through_links_and_devices() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let at = results.path();
    violation(at);
    let names = ["run.xml", "run.sarif", "c.html", "c.json", "c.md", "c.csv", "c.xml", "out.edn"];
    for name in names {
        std::os::unix::fs::symlink(format!("to-{name}"), at.join(name)).expect("a link");
    }
    assert_eq!(ran(at, "analyze run --junit run.xml --sarif run.sarif").status.code(), Some(1));
    output_of(at, "compare --from . --html c.html --json c.json --markdown c.md --csv c.csv --junit c.xml");
    assert_eq!(output_of(at, "export run --format edn --out out.edn"), "");
    for name in names {
        assert!(at.join(name).is_symlink(), "{name} was replaced");
        let length = fs::metadata(at.join(format!("to-{name}"))).map(|file| file.len());
        assert!(length.is_ok_and(|length| length > 0), "{name} was not written");
    }
    output_of(at, "compare --from . --html /dev/null");
    assert!(!Path::new("/dev/null").is_file(), "the device was replaced");
    let streamed = output_of(at, "export run --format edn --out /dev/stdout");
    assert_eq!(streamed, fs::read_to_string(at.join("out.edn")).expect("it was written"));
    // Redirected to a file, it continues where the shell, or another program, has come to.
    let mut redirected = fs::File::create(at.join("redirected")).expect("a file");
    redirected.write_all(b"before\n").expect("it is written");
    let mut export = fencepost(&["export", "run", "--format", "edn", "--out", "/dev/stdout"]);
    assert!(export.current_dir(at).stdout(redirected).status().expect("the program starts").success());
    let whole = fs::read_to_string(at.join("redirected")).expect("it was written");
    assert_eq!(whole, format!("before\n{streamed}"));
}

/// To wait for it would be to wait for ever.
#[test]
fn no_command_waits_for_a_pipe_in_the_folder_of_a_run() {
    for name in ["run.toml", "history.jsonl", "clocks.jsonl", "verdict.json"] {
        let results = tempfile::tempdir().expect("a temporary folder");
        let pipe = violation(results.path()).join(name);
        let _ = fs::remove_file(&pipe);
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        // What collects goes last: it may remove the run.
        for args in ["export run --format csv", "compare --from .", "analyze run", "gc --results . --keep 0"]
        {
            let mut command = std::process::Command::new("timeout");
            command.args(["60", crate::PROGRAM]).args(args.split(' '));
            let output = command.current_dir(results.path()).output().expect("timeout");
            let code = output.status.code();
            assert!(code.is_some_and(|code| code != 124), "{args} waits for {name}: {:?}", output.status);
        }
    }
}

/// Settings of a folder that came from elsewhere.
#[test]
fn what_a_folder_says_of_itself_is_no_command_to_a_runner_nor_markup() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = violation(results.path());
    let settings = fs::read_to_string(folder.join("run.toml")).expect("its settings");
    let hostile = r"<img src=x>\n::warning file=x::a\r##[error]b \u001b[2J";
    let settings = settings.replace("\"redlock\"", &format!("\"{hostile}\""));
    let settings = settings.replace("\"fencepost test ", &format!("\"{hostile} "));
    fs::write(folder.join("run.toml"), settings.replace("redis-server 7", &format!("{hostile} 7")))
        .expect("a file");
    let summary = results.path().join("summary.md");
    for args in [["analyze", "run"].as_slice(), &["compare", "--from", "."]] {
        let mut command = fencepost(args);
        command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", &summary);
        let output = command.current_dir(results.path()).output().expect("the program starts");
        let said =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8")).concat();
        assert!(said.contains("warning file=x"), "{args:?} shows it as a text: {said}");
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
        let is_command = |line: &&str| line.trim_start().starts_with("::") || line.contains("##[");
        for line in said.lines().filter(is_command) {
            let own = ["::error title=", "::warning title=", "::notice title="];
            assert!(own.iter().any(|own| line.starts_with(own)), "{args:?}: {line}");
        }
    }
    let summary = fs::read_to_string(summary).expect("a summary");
    assert!(!summary.lines().any(|line| line.trim_start().starts_with("::")), "{summary}");
    assert!(summary.contains("&lt;img src=x&gt;"), "{summary}");
}

#[test]
fn a_run_that_began_after_the_year_9999_is_judged() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let folder = violation(results.path());
    let settings = fs::read_to_string(folder.join("run.toml")).expect("its settings");
    let began = settings.lines().find(|line| line.starts_with("started = ")).expect("it began at some time");
    let late = settings.replace(began, "started = 9223372036854775807");
    fs::write(folder.join("run.toml"), late).expect("a file");
    assert_eq!(ran(results.path(), "analyze run").status.code(), Some(1));
    assert!(fs::read_to_string(folder.join("report.html")).expect("a report").contains("9999-12-31"));
    output_of(results.path(), "compare --from .");
    output_of(results.path(), "gc --results .");
}

#[test]
fn who_listens_for_others_is_warned_and_asks_them_for_a_token() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut server = Server::start_on("0.0.0.0:0", results.path());
    let (address, token) = server.address.split_once("/?token=").expect("a token is in the address");
    assert!(token.len() >= 32, "{token}");
    let port = address.rsplit(':').next().expect("a port");
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    assert!(ask("/").starts_with("HTTP/1.1 403"), "{}", ask("/"));
    assert!(ask(&format!("/?token={token}")).starts_with("HTTP/1.1 303"));
    server.process.kill().expect("it runs");
    let mut complaints = String::new();
    let stderr = server.process.stderr.as_mut().expect("piped");
    stderr.read_to_string(&mut complaints).expect("text");
    assert!(complaints.contains("is reached from other computers"), "{complaints}");
}

/// The run of the docs, which holds a violation and was not judged yet.
fn unjudged(results: &Path) -> PathBuf {
    let run = results.join("redlock-increment-clock-jump-20260214T093015Z-7");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/examples/redlock-clock-jump");
    let copy = std::process::Command::new("cp").args(["-r", example]).arg(&run).status();
    assert!(copy.expect("cp").success());
    fs::remove_file(run.join("verdict.json")).expect("a verdict");
    run
}

#[test]
fn a_run_that_cannot_be_judged_is_not_removed() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let run = unjudged(results.path());
    let history = run.join("history.jsonl");
    let text = fs::read_to_string(&history).expect("a history");
    fs::write(&history, format!("garbage{text}")).expect("a file");
    let output = ran(results.path(), "gc --results . --keep 0");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(run.is_dir() && complaint.contains("stays, since it cannot be judged"), "{complaint}");
}

#[test]
fn a_comparison_is_printed_though_a_file_of_it_cannot_be_written() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let run = unjudged(results.path());
    output_of(results.path(), &format!("analyze {} --expect violation", run.display()));
    let args = "compare --from . --html /nowhere/compare.html --json /dev/full --csv compare.csv";
    let output = ran(results.path(), args);
    let (printed, complaints) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(255), "{complaints}");
    assert!(printed.contains("redlock") && results.path().join("compare.csv").is_file(), "{printed}");
    assert_eq!(complaints.matches("could not be written: ").count(), 2, "{complaints}");
}

#[test]
fn seeds_and_acquisitions_are_bounded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for command in ["test", "hunt", "scenario redis-no-ttl"] {
        let output = ran(folder.path(), &format!("{command} --seed 9007199254740992"));
        let refusal = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(254), "{refusal}");
        assert!(refusal.contains("expected a whole number from 0 to 9007199254740991"), "{refusal}");
    }
    let refusal = refused(folder.path(), "test --acquisitions 18446744073709551615");
    assert!(refusal.contains("--acquisitions must be from 1 to 1000000000"), "{refusal}");
}
