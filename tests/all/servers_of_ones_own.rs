//! Servers of a user's own in the place of Debian's: a program, and an image without anything that faults
//! need.

use crate::common::{test_until, under};
use fencepost_cluster::image_store::{self, RootFileSystem};
use fencepost_cluster::{DriverOptions, Suite};
use fencepost_history::Kind;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

under!(
    local: [a_program_takes_the_place_of_debians],
    docker: [an_image_is_cut_off_by_what_fencepost_puts_into_it],
    docker_by_night: [],
);

/// Its redis-server is another version than that of nodes.
static ROOT: LazyLock<RootFileSystem> = LazyLock::new(|| {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let options = DriverOptions::new().expect("options of drivers");
    let suite = Suite::find("bookworm").expect("a known suite");
    runtime.block_on(image_store::root_with(&["redis-server"], suite, &options)).expect("a root")
});

fn a_program_takes_the_place_of_debians(driver: &str) {
    let program = ROOT.folder().join("usr/bin/redis-server");
    let ran = test_until(
        &format!(
            "--driver {driver} --lock redis-single --server {} --nemesis clock-jump --time-limit 5s",
            program.display()
        ),
        |ran| assert!(ran.stdout.contains("redis-server 7.0."), "{}", ran.stdout),
        |ran| ran.stages("inject", Kind::Ok).iter().any(|seen| seen["effective"] == true),
    );
    assert!(ran.folder().join("report.html").exists());
}

/// An image of Redis in an engine, which goes with this.
struct ImageOfRedis(&'static str);

impl ImageOfRedis {
    fn import() -> ImageOfRedis {
        let name = "fencepost-test-image/redis:7";
        let mut pack = Command::new("tar")
            .args(["-c", "-C", &ROOT.folder().display().to_string()])
            .args([
                "--exclude=./usr/sbin/iptables",
                "--exclude=./usr/sbin/xtables*",
                "--exclude=./usr/sbin/tc",
                ".",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .expect("tar");
        let packed = pack.stdout.take().expect("its output");
        let imported =
            Command::new("docker").args(["import", "-", name]).stdin(packed).output().expect("docker");
        assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
        assert!(pack.wait().expect("tar").success());
        ImageOfRedis(name)
    }
}

impl Drop for ImageOfRedis {
    fn drop(&mut self) {
        let _ = Command::new("docker").args(["rmi", "-f", self.0]).output();
    }
}

fn an_image_is_cut_off_by_what_fencepost_puts_into_it(driver: &str) {
    let image = ImageOfRedis::import();
    let ran = test_until(
        &format!(
            "--driver {driver} --lock redlock --server image:{} --nemesis partition,delay --time-limit 8s",
            image.0
        ),
        |ran| assert!(ran.stdout.contains("redis-server 7.0."), "{}", ran.stdout),
        |ran| {
            let seen = ran.nemesis_events("inject", Kind::Ok);
            ["partition", "delay"]
                .iter()
                .all(|fault| seen.iter().any(|event| event.f == *fault && event.value["effective"] == true))
        },
    );
    assert!(ran.folder().join("report.html").exists());
}
