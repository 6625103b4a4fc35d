//! Servers of a user's own in the place of Debian's: a program, and an image without anything that faults
//! need.

use crate::common::{planned, under};
use fencepost_cluster::image_store::{self, RootFileSystem};
use fencepost_cluster::{DriverOptions, Suite};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

under!(
    local: [a_program_takes_the_place_of_debians],
    docker: [],
    docker_by_night: [an_image_is_cut_off_by_what_fencepost_puts_into_it],
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
    let plan =
        "[[fault]]\nwhen = 'any acquire'\nfor = '1s'\nfault = 'clock-jump'\non = ['n1']\nwall = '30s'\n";
    let args = "--lock redis-single --brief --time-limit 300s";
    let ran = planned(plan, &format!("--driver {driver} {args} --server {}", program.display()));
    assert!(ran.stdout.contains("redis-server 7.0."), "{}", ran.stdout);
    ran.assert_faults_real();
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
    let plan = "[[fault]]\nwhen = 'any acquire'\nfor = '1s'\nfault = 'partition'\ngroups = 'c1|n1'\n\n\
        [[fault]]\nwhen = 'partition healed'\nfor = '1s'\nfault = 'delay'\non = ['n1']\ndelay = '500ms'\n";
    let args = "--lock redlock --brief --time-limit 300s";
    let ran = planned(plan, &format!("--driver {driver} {args} --server image:{}", image.0));
    assert!(ran.stdout.contains("redis-server 7.0."), "{}", ran.stdout);
    ran.assert_all_effective(&["partition", "delay"]);
    assert!(ran.folder().join("report.html").exists());
}
