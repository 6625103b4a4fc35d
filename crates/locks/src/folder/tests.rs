use super::*;
use crate::Options;
use fencepost_history::Lease;

const LOCK: &str = r#"
about = "redis-py's Lock"
service = "redis"
client = "python3 client.py --name 'my lock'"
files = ["../kits/fencepost.py"]
lease = "ttl"
ttl-step = "1s"
properties = ["exclusion"]
token = true

[options.blocking-timeout]
default = "2s"

[variants.forever]
about = "without a TTL"
args = ["--forever"]
lease = "none"
token = false
options.blocking-timeout = "5s"
"#;

fn parsed(text: &str, variant: Option<&str>) -> Result<LockDefinition, String> {
    read(text, "lock.toml", Path::new("/locks/redis-py"), (variant, None)).map_err(|refusal| refusal.sentence)
}

fn program(text: &str, variant: Option<&str>) -> &'static ClientProgram {
    parsed(text, variant).unwrap_or_else(|error| panic!("{error}")).recipe.program().unwrap()
}

#[test]
fn a_lock_is_what_its_file_says() {
    let lock = parsed(LOCK, None).unwrap();
    assert_eq!((lock.name, lock.service.name, lock.claims), ("redis-py", "redis", "exclusion"));
    let program = program(LOCK, None);
    assert_eq!(program.command, ["python3", "client.py", "--name", "my lock"]);
    assert_eq!((program.lease, program.ttl_step.unwrap().millis()), (Lease::Ttl, 1000));
    assert_eq!(
        (program.must_announce(), program.options["blocking-timeout"].default.as_str()),
        (vec!["token".to_owned()], "2s")
    );
    assert_eq!(program.variants["forever"], "without a TTL");
    assert!(lock.capabilities(&Default::default()).token);
}

#[test]
fn a_variant_says_otherwise_only_what_it_names() {
    let lock = parsed(LOCK, Some("forever")).unwrap();
    assert_eq!((lock.name, lock.about), ("redis-py@forever", "without a TTL"));
    let program = program(LOCK, Some("forever"));
    assert_eq!(program.command.last().map(String::as_str), Some("--forever"));
    assert_eq!((program.lease, program.ttl_step.unwrap().millis()), (Lease::None, 1000));
    assert!(program.must_announce().is_empty());
    assert_eq!(program.options["blocking-timeout"].default, "5s");
    let versions = LOCK.replace("lease = \"ttl\"", "version = \"lock 1.0\"\nlease = \"ttl\"");
    let own = versions.replace("args = [\"--forever\"]", "args = [\"--forever\"]\nversion = \"lock 2.0\"");
    let version = |text: &str, variant| {
        parsed(text, variant).unwrap().recipe.program().unwrap().version.clone().unwrap_or_default().join(" ")
    };
    assert_eq!(
        (version(&versions, Some("forever")), version(&own, None)),
        ("lock 1.0".into(), "lock 1.0".into())
    );
    assert_eq!(version(&own, Some("forever")), "lock 2.0");
}

#[test]
fn a_mistake_is_named_with_its_line_and_what_was_meant() {
    let changed = |from: &str, to: &str| parsed(&LOCK.replace(from, to), None).err().unwrap_or_default();
    let refusals = [
        changed("lease = \"ttl\"", "lease = \"tll\""),
        changed("ttl-step", "ttl_step"),
        changed("service = \"redis\"", "service = \"rediss\""),
        changed("client = \"python3 client.py --name 'my lock'\"", "client = \"python3 'client.py\""),
        changed("client = \"python3 client.py --name 'my lock'\"", "client = []"),
        changed("about = \"redis-py's Lock\"\n", ""),
        changed("options.blocking-timeout = \"5s\"", "option.blocking-timeout = \"5s\""),
        changed("token = true", "token = \"yes\""),
        parsed(LOCK, Some("for-ever")).err().unwrap_or_default(),
        parsed("about = \"\"\nservice = \"etcd\"\nclient = \"c\"", Some("x")).err().unwrap_or_default(),
        parsed(&LOCK.replace("options.blocking-timeout = ", "options.timeout = "), Some("forever"))
            .err()
            .unwrap_or_default(),
    ];
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn a_hello_must_announce_what_was_promised_and_what_the_guard_needs() {
    let can = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let program = program(LOCK, None);
    assert_eq!(program.check_announced(&can(&["token", "validity"]), &[("token", "guard")]), Ok(()));
    let missing = program.check_announced(&can(&["validity"]), &[]).unwrap_err().sentence;
    assert!(missing.contains("does not announce token, which lock.toml promises"), "{missing}");
    let needed = program.check_announced(&can(&["token"]), &[("unique", "guard")]).unwrap_err().sentence;
    assert!(needed.contains("does not announce unique, which the guard needs"), "{needed}");
    let unknown = program.check_announced(&can(&["token", "valid"]), &[]).unwrap_err().sentence;
    assert!(unknown.contains("did you mean \"validity\"?"), "{unknown}");
}

#[test]
fn a_client_on_the_command_line_is_named_by_its_file() {
    let base = services::find("redlock").unwrap();
    let lock = ad_hoc(base, "python3 -u my_client.py --fast", None, &[]).unwrap();
    assert_eq!((lock.name, lock.service.name), ("my_client", "redis-independent"));
    assert!(ad_hoc(base, "python3 'x", None, &[]).err().unwrap().sentence.contains("not closed"));
    assert_eq!(name_of_command(&["/opt/bin/adapter".to_owned()]), "adapter");
}

#[test]
fn a_folder_is_known_from_a_name() {
    assert!(is_folder("./my-lock") && is_folder("adapters/redis-py@with") && is_folder("."));
    assert!(!is_folder("redlock"));
    assert_eq!(split("a@b/c"), ("a@b/c", None));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    assert!(load(&path).err().unwrap().sentence.contains("has no lock.toml"));
    assert!(load("./nowhere").err().unwrap().sentence.contains("cannot open the lock ./nowhere"));
}

#[test]
fn a_service_can_be_described() {
    let described = |more: &str| {
        let text = format!(
            "about = 'x'\nclient = 'y'\npackages = ['a']\n{more}[service]\nprogram = '/usr/sbin/mariadbd --port={{port}}'\nport = 3306\n"
        );
        parsed(&text, None)
    };
    let lock = described("").unwrap();
    let environment = lock.service.environment(&Options::default()).unwrap().unwrap();
    assert_eq!(
        (lock.service.name, lock.service.port(), lock.service.image(&Options::default())),
        ("mariadbd", 3306, Some("client"))
    );
    assert_eq!(lock.recipe.program().unwrap().environment.as_ref(), Some(&environment), "one for all nodes");
    assert!(lock.service.leadership.is_none());
    let misplaced = described("nodes = 3\n").err().unwrap();
    assert!(misplaced.starts_with("lock.toml, line 5: `nodes` outside of [service]"), "{misplaced}");
    let text = "about = 'x'\nclient = 'y'\n[service]\nport = 3306\nprogram = 'x'\nprot = 5\n";
    let unknown = parsed(text, None).err().unwrap();
    assert!(unknown.starts_with("lock.toml, line 6: unknown key") && unknown.contains("port"), "{unknown}");
}

#[test]
fn texts_that_would_be_something_else_elsewhere_are_refused() {
    let refused = |from: &str, to: &str| parsed(&LOCK.replace(from, to), None).err().unwrap_or_default();
    let about = refused("redis-py's Lock", "\\u001b[31mred");
    assert_eq!(about, "lock.toml, line 2: a text with control characters; leave them out");
    assert!(
        refused("python3 client.py", "a\\u0000b")
            .starts_with("lock.toml, line 4: a text with control characters")
    );
    let package = refused("lease = \"ttl\"", "packages = [\"-oDir=/etc\"]");
    assert_eq!(package, "lock.toml, line 6: \"-oDir=/etc\" is no name of a Debian package");
    // apt would remove it.
    let gone = refused("lease = \"ttl\"", "packages = [\"redis-server-\"]");
    assert_eq!(gone, "lock.toml, line 6: \"redis-server-\" is no name of a Debian package");
    let patient = refused("ttl-step = \"1s\"", "start-time = \"2h\"");
    assert_eq!(patient, "lock.toml, line 7: start-time is 3600s at most, not 7200s");
    let at_once = refused("ttl-step = \"1s\"", "start-time = \"0s\"");
    assert_eq!(at_once, "lock.toml, line 7: start-time is 0s: no program starts in no time");
    let stepless = refused("ttl-step = \"1s\"", "ttl-step = \"0s\"");
    assert_eq!(stepless, "lock.toml, line 7: ttl-step is 0s: leave it out where any TTL can be asked for");
    let named =
        read(LOCK, "lock.toml", Path::new("/locks/a\u{1b}[2Jb"), (None, None)).err().unwrap().sentence;
    assert!(named.contains("the folder's name \"a\\u{1b}[2Jb\" has control characters"), "{named}");
}

#[test]
fn entries_that_could_never_work_are_refused_at_their_lines() {
    let refused = |from: &str, to: &str| parsed(&LOCK.replace(from, to), None).err().unwrap_or_default();
    let client = "client = \"python3 client.py --name 'my lock'\"";
    let empty = "lock.toml, line 4: the first word of the command is empty; it names the program";
    for wrong in ["client = [\"\"]", "client = [\" \", \"x\"]", "client = \"'' x\""] {
        assert_eq!(refused(client, wrong), empty, "{wrong}");
    }
    let of_option = |name: &str| refused("[options.blocking-timeout]", &format!("[options.{name}]"));
    for name in ["\"a=b,c\"", "\"a b\"", "\"\"", "\"-a\"", "\"a\\u0000\""] {
        let sentence = of_option(name);
        assert!(
            sentence.starts_with("lock.toml, line 11: ") && sentence.contains("is no name of an option: "),
            "{name}: {sentence}"
        );
    }
    for name in ["x@y", "x,y", "x/y", ""] {
        let sentence = refused("[variants.forever]", &format!("[variants.\"{name}\"]"));
        assert!(
            sentence.starts_with(&format!("lock.toml, line 14: {name:?} is no name of a variant: ")),
            "{sentence}"
        );
    }
    let more = |line: &str| refused("lease = \"ttl\"", line);
    assert_eq!(
        more("version = []"),
        "lock.toml, line 6: the command has no words; the first names the program"
    );
    assert_eq!(
        more("setup = [\"true\", \" \"]"),
        "lock.toml, line 6: an empty command in `setup`; leave it out"
    );
    assert_eq!(
        more("packages = [\"a\", \"a\"]"),
        "lock.toml, line 6: `packages` names a twice; name it once"
    );
    let long = more(&format!("build = [{}]", vec!["\"true\""; 100_000].join(",")));
    assert_eq!(long, "lock.toml, line 6: `build` has 100000 entries; at most 1000 are possible");
    assert!(more("suite = \"buzz\"").starts_with("lock.toml, line 6: "), "{}", more("suite = \"buzz\""));
    let files = refused("files = [\"../kits/fencepost.py\"]", "files = [\"\"]");
    assert_eq!(files, "lock.toml, line 5: an empty text in `files`; each names a file or a folder");
}

#[test]
fn files_that_cannot_be_copied_are_refused_at_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("there"), "x").unwrap();
    std::fs::create_dir(path.join("other")).unwrap();
    std::fs::write(path.join("other/there"), "x").unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path.join("pipe")).status().unwrap().success());
    std::os::unix::fs::symlink("/proc", path.join("link")).unwrap();
    let read = |files: &str| {
        let text = format!("about = 'x'\nservice = 'redis'\nclient = 'y'\nfiles = [\n{files}]\n");
        check_files(&text, path).map_err(|mistake| mistake.in_file("lock.toml", &text).to_string())
    };
    assert_eq!(read("'there',\n'other'"), Ok(()));
    for (wrong, why) in [
        ("nowhere", "nowhere is not there"),
        ("/proc", "/proc holds devices or what the kernel shows of itself, which cannot be copied"),
        ("link", "/proc holds devices or what the kernel shows of itself, which cannot be copied"),
        ("/sys/kernel", "/sys/kernel holds devices"),
        ("/dev/null", "/dev/null holds devices"),
        ("pipe", "pipe is neither a file nor a folder"),
        ("/", "this is the root of all files"),
    ] {
        let sentence = read(&format!("'there',\n'{wrong}'")).unwrap_err();
        assert!(
            sentence.starts_with(&format!("lock.toml, line 6: `files` names {wrong}: "))
                && sentence.contains(why),
            "{sentence}"
        );
    }
    let twice = read("'there',\n'other/there'").unwrap_err();
    assert!(twice.starts_with("lock.toml, line 6: two of `files` are called there"), "{twice}");
}

#[test]
fn a_pipe_in_place_of_the_file_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    assert!(std::process::Command::new("mkfifo").arg(folder.path().join(FILE)).status().unwrap().success());
    let error = load(folder.path().to_str().unwrap()).err().unwrap().sentence;
    assert!(error.contains("it has no lock.toml"), "{error}");
}
