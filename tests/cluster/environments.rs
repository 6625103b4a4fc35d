//! A user's folder of programs, made ready and run in nodes.

use crate::common::*;
use fencepost_cluster::images::Kind;
use fencepost_cluster::{Attached, ClusterSpec, Driver, DriverOptions, Environment, Suite, image_store};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncReadExt;

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn environment(folder: &Path) -> Environment {
    Environment {
        suite: None,
        name: "a-lock".to_owned(),
        folder: Some(folder.to_owned()),
        files: Vec::new(),
        build: Vec::new(),
        setup: Vec::new(),
        packages: Vec::new(),
        dockerfile: None,
        ..Environment::default()
    }
}

fn spec_with(test: &str, environment: &Arc<Environment>) -> ClusterSpec {
    let mut spec = spec(test, &[("c1", "client"), ("c2", "client"), ("storage", "client")]);
    for node in &mut spec.nodes[..2] {
        node.environment = Some(environment.clone());
    }
    spec
}

/// What an attached program prints until it ends.
async fn printed(node: &Arc<dyn fencepost_cluster::Node>, argv: &[&str]) -> String {
    let argv: Vec<String> = argv.iter().map(|arg| (*arg).to_owned()).collect();
    let Attached { stdin, mut stdout } = node.attach(&argv).await.unwrap();
    let mut text = String::new();
    stdout.read_to_string(&mut text).await.unwrap();
    drop(stdin);
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_runs_in_nodes_of_this_machine() {
    a_folder_runs_in_its_nodes("local").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs every night, by .ci/nightly"]
async fn a_folder_runs_in_containers_by_night() {
    a_folder_runs_in_its_nodes("docker").await;
}

async fn a_folder_runs_in_its_nodes(name: &str) {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("lock");
    std::fs::create_dir(&folder).unwrap();
    write(&place.path().join("kit.txt"), "the kit\n", 0o644);
    write(
        &folder.join("client"),
        "#!/bin/sh\npwd; cat kit.txt made built; echo $HOME $LANG; exec cat\n",
        0o755,
    );
    write(&folder.join("plain"), "no program\n", 0o644);
    write(&folder.join("lost"), "#!/no/such/interpreter\n", 0o755);
    let environment = Arc::new(Environment {
        files: vec!["../kit.txt".into()],
        build: vec!["echo built > built".to_owned()],
        setup: vec!["cat kit.txt > made".to_owned()],
        ..environment(&folder)
    });
    let driver = driver(name).await;
    let spec = spec_with(&format!("folder-{name}"), &environment);
    let cluster = start(&*driver, &spec).await;
    let [c1, storage] = ["c1", "storage"].map(|name| cluster.node(name).unwrap());
    let argv = ["./client"].map(str::to_owned);
    let Attached { stdin, mut stdout } = c1.attach(&argv).await.unwrap();
    drop(stdin);
    let mut text = String::new();
    stdout.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "/lock\nthe kit\nthe kit\nbuilt\n/tmp C.UTF-8\n");
    if name == "local" {
        assert_eq!(printed(c1, &["sh", "-c", "echo x > /lock/new || echo denied"]).await, "denied\n");
        // Its root is that of this machine, without the files that other users of the machine could not read
        // either.
        let closed =
            "find /etc -type f ! -perm -o=r -size +0 2> /dev/null; cat /etc/shadow- 2> /dev/null || true";
        assert_eq!(printed(c1, &["sh", "-c", closed]).await, "");
    }
    assert_eq!(printed(c1, &["sh", "-c", "echo x > /tmp/new && echo fine"]).await, "fine\n");
    assert_eq!(output(storage, &["sh", "-c", "pwd; ls /lock 2> /dev/null || true"]).await, "/\n");

    let refused = async |program: &str| c1.attach(&[program.to_owned()]).await.err().unwrap().0;
    assert_eq!(refused("./absent").await, "c1: cannot start ./absent: there is no such program in /lock");
    assert_eq!(
        refused("absent").await,
        "c1: cannot start absent: there is no such program in the node's PATH"
    );
    assert_eq!(
        refused("./plain").await,
        "c1: cannot start ./plain: it is not executable (chmod +x makes it so)"
    );
    assert_eq!(
        refused("./lost").await,
        "c1: cannot start ./lost: its first line names /no/such/interpreter, which is not there in its node"
    );
    stop(cluster, &spec).await;
}

/// A driver with its own lines of progress.
async fn watched_local(time_limit: Duration) -> (Box<dyn Driver>, Arc<Mutex<Vec<String>>>) {
    watched("local", time_limit).await
}

async fn watched(name: &str, time_limit: Duration) -> (Box<dyn Driver>, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    let progress: fencepost_cluster::Progress =
        Arc::new(move |line| sink.lock().unwrap().push(line.to_owned()));
    let options = DriverOptions { progress, setup_time_limit: time_limit, ..options() };
    (fencepost_cluster::select_with(name, options).await.unwrap(), lines)
}

/// A folder of its own, with one file.
fn folder_with_a_file() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    write(&place.path().join("file"), "one\n", 0o644);
    place
}

/// Where environments are made.
fn cache() -> PathBuf {
    let set = |name| std::env::var_os(name).map(PathBuf::from);
    let folder = set("FENCEPOST_CACHE").or_else(|| set("XDG_CACHE_HOME").map(|it| it.join("fencepost")));
    folder
        .unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/fencepost"))
        .join("environments")
}

/// What of it lies in the cache.
async fn in_the_cache(name: &str) -> Vec<PathBuf> {
    let made = image_store::list().await.unwrap();
    made.into_iter().filter(|made| made.name == name).map(|made| PathBuf::from(made.place)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_runs_where_the_client_will_and_finds_the_network() {
    let place = folder_with_a_file();
    let environment = Arc::new(Environment {
        setup: vec![
            "pwd > where; id -u > user; touch $HOME/.cache-of-a-test && rm $HOME/.cache-of-a-test".to_owned(),
            "cat /etc/resolv.conf > resolv; ls /etc/ssl/certs/ca-certificates.crt; touch /usr/x || true"
                .to_owned(),
            "dd if=/dev/zero of=/tmp/large bs=1M count=300; echo $SETTING > setting".to_owned(),
        ],
        ..environment(place.path())
    });
    let (driver, lines) = watched_local(Duration::from_secs(60)).await;
    let spec = spec_with("setup", &environment);
    let cluster = start(&*driver, &spec).await;
    let c1 = cluster.node("c1").unwrap();
    assert_eq!(output(c1, &["cat", "where"]).await, "/lock\n");
    assert_eq!(output(c1, &["cat", "resolv"]).await, std::fs::read_to_string("/etc/resolv.conf").unwrap());
    assert!(!Path::new("/usr/x").exists());
    assert_eq!(lines.lock().unwrap().len(), 3, "one line for each command: {lines:?}");
    assert!(lines.lock().unwrap()[0].starts_with("setting up a-lock, once: pwd > where"), "{lines:?}");
    stop(cluster, &spec).await;

    // The second time it is there.
    driver.prepare_environment(&environment).await.unwrap();
    assert_eq!(lines.lock().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_runs_make_it_once_and_old_contents_go() {
    let place = folder_with_a_file();
    let count = place.path().join("count");
    std::fs::create_dir(place.path().join("lock")).unwrap();
    let environment = Arc::new(Environment {
        name: "once".to_owned(),
        build: vec![format!("echo x >> {}; sleep 0.3", count.display())],
        ..environment(&place.path().join("lock"))
    });
    let (driver, _) = watched_local(Duration::from_secs(60)).await;
    let (a, b, c) = tokio::join!(
        driver.prepare_environment(&environment),
        driver.prepare_environment(&environment),
        driver.prepare_environment(&environment)
    );
    for each in [a, b, c] {
        each.unwrap();
    }
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n");
    let before = in_the_cache("once").await;
    assert_eq!(before.len(), 1, "{before:?}");

    // A run keeps what it uses; without it, a new content takes the place of the old one.
    let hash = environment.hash().unwrap();
    let spec = spec_with("old-content", &environment);
    let cluster = start(&*driver, &spec).await;
    write(&place.path().join("lock/file"), "two\n", 0o644);
    assert_ne!(environment.hash().unwrap(), hash);
    driver.prepare_environment(&environment).await.unwrap();
    assert_eq!(in_the_cache("once").await.len(), 2);
    stop(cluster, &spec).await;
    // A program that another test starts in this moment has the lock of a folder for as long as it is not yet
    // itself: what was kept for it goes with the next content.
    let (mut content, mut after) = (2, Vec::new());
    eventually("only the newest content is kept", async || {
        content += 1;
        write(&place.path().join("lock/file"), &format!("{content}\n"), 0o644);
        driver.prepare_environment(&environment).await.unwrap();
        after = in_the_cache("once").await;
        after.len() == 1
    })
    .await;
    assert_ne!(after, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_is_shown_and_not_kept() {
    failures("local").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs every night, by .ci/nightly"]
async fn what_fails_in_the_engine_is_shown_and_not_kept_by_night() {
    failures("docker").await;
}

async fn failures(name: &str) {
    let place = folder_with_a_file();
    let failing = |name: &str, command: &str| {
        Arc::new(Environment {
            name: name.to_owned(),
            setup: vec![command.to_owned()],
            ..environment(place.path())
        })
    };
    let (driver, lines) = watched(name, PATIENCE).await;
    driver.prepare("client").await.unwrap();
    let broken = failing("broken", "for n in $(seq 30); do echo line $n; done; echo trouble >&2; exit 3");
    for tries in 1..=2 {
        let error = driver.prepare_environment(&broken).await.unwrap_err().0;
        assert!(error.starts_with("cannot set up broken: `for n in"), "{error}");
        assert!(error.contains("exit 3` failed with code 3; its last lines, of /"), "{error}");
        assert!(error.ends_with("line 29\nline 30\ntrouble") && !error.contains("line 11\n"), "{error}");
        let lines = lines.lock().unwrap();
        let announced = lines.iter().filter(|line| line.starts_with("setting up")).count();
        assert_eq!(announced, tries);
    }
    let mark = format!("fencepost-test-{name}-{}", std::process::id());
    let hanging = failing("hanging", &format!("sh -c 'sleep 600; true {mark}' & sleep 600; true {mark}"));
    let (hasty, _) = watched(name, Duration::from_secs(2)).await;
    let error = hasty.prepare_environment(&hanging).await.unwrap_err().0;
    assert!(error.contains("` did not end within 2 s and printed nothing"), "{error}");
    eventually("its processes are gone", async || !leftovers::is_running(&mark)).await;

    // Given up, as Ctrl-C does.
    tokio::select! {
        ended = driver.prepare_environment(&hanging) => panic!("it was not given up: {ended:?}"),
        () = eventually("its processes run", async || leftovers::is_running(&mark)) => {}
    }
    eventually("its processes are gone", async || !leftovers::is_running(&mark)).await;
    // What a killed controller left goes when the next one makes something.
    let abandoned = cache().join(format!("abandoned-{name}-{}.work", std::process::id()));
    // Put there whole: a test beside this one clears up, too.
    let unfinished = cache().join(format!("unfinished-{name}-{}", std::process::id()));
    std::fs::create_dir_all(unfinished.join("lock")).unwrap();
    std::fs::rename(&unfinished, &abandoned).unwrap();
    driver.prepare_environment(&broken).await.unwrap_err();
    assert!(!abandoned.exists());
    for name in ["broken", "hanging"] {
        assert_eq!(in_the_cache(name).await, Vec::<PathBuf>::new());
    }
}

#[test]
fn the_hash_names_content_and_commands() {
    let place = folder_with_a_file();
    let plain = environment(place.path());
    let hash = plain.hash().unwrap();
    assert_eq!(hash, plain.hash().unwrap());
    let changed = [
        Environment { setup: vec!["true".to_owned()], ..plain.clone() },
        Environment { build: vec!["true".to_owned()], ..plain.clone() },
        Environment { packages: vec!["python3".to_owned()], ..plain.clone() },
        Environment { suite: Some(Suite::find("trixie").unwrap()), ..plain.clone() },
        Environment { files: vec!["/etc/hostname".into()], ..plain.clone() },
    ];
    let hashes: std::collections::HashSet<String> =
        changed.iter().map(|it| it.hash().unwrap()).chain([hash.clone()]).collect();
    assert_eq!(hashes.len(), 6);
    // What commands make, and what others leave, is no content.
    for made in [".git", "__pycache__", "results"] {
        std::fs::create_dir(place.path().join(made)).unwrap();
    }
    std::os::unix::fs::symlink("run", place.path().join("results/latest")).unwrap();
    assert_eq!(hash, plain.hash().unwrap());
    std::fs::create_dir(place.path().join(".venv")).unwrap();
    assert_ne!(hash, plain.hash().unwrap());
    assert!(hashes.contains(&changed[0].hash().unwrap()));
    // A program is not the same as a file.
    std::fs::remove_dir(place.path().join(".venv")).unwrap();
    write(&place.path().join("file"), "one\n", 0o755);
    assert_ne!(hash, plain.hash().unwrap());
}

#[test]
fn missing_and_oversized_folders_are_refused() {
    let place = folder_with_a_file();
    let files = vec!["../kit/fencepost.py".into()];
    let error = Environment { files, ..environment(place.path()) }.hash().unwrap_err().0;
    assert!(
        error.starts_with("a-lock, `files` in its lock.toml: ")
            && error.ends_with("/../kit/fencepost.py is not there"),
        "{error}"
    );
    let error = environment(&place.path().join("absent")).hash().unwrap_err().0;
    assert!(
        error.starts_with("the folder of a-lock, ") && error.ends_with("/absent, is not there"),
        "{error}"
    );
    std::fs::File::create(place.path().join("large")).unwrap().set_len(2 << 30).unwrap();
    let error = environment(place.path()).hash().unwrap_err().0;
    assert!(error.contains("more than 1 GiB or 50000 files"), "{error}");
}

/// A package that this machine does not have comes out of an image, and with it everything else in the node.
#[tokio::test(flavor = "multi_thread")]
async fn missing_packages_come_out_of_an_image() {
    packages_and_setup("local").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs every night, by .ci/nightly"]
async fn packages_and_setup_make_an_image_of_the_engine_by_night() {
    packages_and_setup("docker").await;
}

async fn packages_and_setup(name: &str) {
    let place = folder_with_a_file();
    write(&place.path().join("client"), "#!/bin/sh\nhello --greeting=there; cat greeting\n", 0o755);
    let environment = Arc::new(Environment {
        name: "greets".to_owned(),
        packages: vec!["hello".to_owned(), "dpkg".to_owned()],
        setup: vec![
            "hello > greeting; pwd >> greeting; grep -c nameserver /etc/resolv.conf >> greeting".to_owned(),
            "test $(grep -c BEGIN.CERT /etc/ssl/certs/ca-certificates.crt) -gt 10; echo $HOME $PATH >> greeting".to_owned(),
        ],
        ..environment(place.path())
    });
    let (driver, lines) = watched(name, Duration::from_secs(60)).await;
    let spec = spec_with(&format!("packages-{name}"), &environment);
    let cluster = start(&*driver, &spec).await;
    let c1 = cluster.node("c1").unwrap();
    let usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let servers = std::fs::read_to_string("/etc/resolv.conf").unwrap().matches("nameserver").count();
    assert_eq!(
        printed(c1, &["./client"]).await,
        format!("there\nHello, world!\n/lock\n{servers}\n/tmp {usual}\n"),
        "{lines:?}"
    );
    assert!(output(c1, &["iptables", "--version"]).await.contains("iptables"));
    assert!(output(c1, &["dpkg-query", "--show", "hello"]).await.starts_with("hello\t2."));
    stop(cluster, &spec).await;
    let made = image_store::list().await.unwrap();
    assert!(made.iter().any(|made| made.name == "packages" && made.current), "{made:?}");

    let absent = Environment { packages: vec!["no-such-package".to_owned()], ..(*environment).clone() };
    let error = driver.prepare_environment(&Arc::new(absent)).await.unwrap_err().0;
    assert!(error.contains("no-such-package"), "{error}");
}

/// The user's Dockerfile takes the place of the packages, with the folder as its context.
#[tokio::test(flavor = "multi_thread")]
async fn a_dockerfile_makes_the_image() {
    let place = folder_with_a_file();
    let (driver, _) = watched("docker", Duration::from_secs(60)).await;
    driver.prepare("client").await.unwrap();
    let made = image_store::list().await.unwrap();
    let base =
        made.iter().find(|it| it.name == "client" && it.kind == Kind::EngineImage && it.current).unwrap();
    let dockerfile =
        |more: &str| format!("FROM {}\nENV PATH=/opt/own:$PATH\nCOPY file /opt/own/file\n{more}", base.place);
    write(&place.path().join("Dockerfile"), &dockerfile("RUN chmod +x /opt/own/file\n"), 0o644);
    write(&place.path().join("file"), "#!/bin/sh\ncat made\n", 0o644);
    let environment = Arc::new(Environment {
        name: "own-image".to_owned(),
        packages: vec!["no-such-package".to_owned()],
        setup: vec!["echo made by setup, with $(ls) > made".to_owned()],
        dockerfile: Some("Dockerfile".into()),
        ..environment(place.path())
    });
    let spec = spec_with("dockerfile", &environment);
    let cluster = start(&*driver, &spec).await;
    let c1 = cluster.node("c1").unwrap();
    assert_eq!(printed(c1, &["file"]).await, "made by setup, with Dockerfile file\n");
    stop(cluster, &spec).await;

    write(&place.path().join("Dockerfile"), &dockerfile("RUN echo trouble && exit 7\n"), 0o644);
    let error = driver.prepare_environment(&environment).await.unwrap_err().0;
    assert!(error.starts_with("cannot set up own-image: `build Dockerfile` failed ("), "{error}");
    assert!(error.contains("returned a non-zero code: 7") && error.contains("\ntrouble"), "{error}");
}
