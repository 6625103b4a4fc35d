//! What killed controllers leave, made by hand.

use crate::common::driver;
use bollard::Docker;
use bollard::models::{ContainerCreateBody, NetworkCreateRequest};
use bollard::query_parameters::{CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder};
use fencepost_cluster::for_tests::{ClusterFolder, end_all_in, name_of_run, of_run};
use fencepost_cluster::{clean_up, image_store, images};
use nix::mount::{MsFlags, mount};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// What a controller leaves that is killed between making things and starting them.
async fn make(engine: &Docker, image: &str, run: &str) -> ClusterFolder {
    let folder = ClusterFolder::create(run, |_| true).unwrap();
    let (name, labels) = (name_of_run(run), of_run(run, &folder));
    let network =
        NetworkCreateRequest { name: name.clone(), labels: Some(labels.clone()), ..Default::default() };
    engine.create_network(network).await.unwrap();
    let options = CreateContainerOptionsBuilder::default().name(&name).build();
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec!["true".to_owned()]),
        labels: Some(labels),
        ..Default::default()
    };
    engine.create_container(Some(options), body).await.unwrap();
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_and_never_started_goes_once_its_controller_is_dead() {
    driver("docker").await.prepare("client").await.unwrap();
    let made = image_store::list().await.unwrap();
    let is_client =
        |it: &&images::StoredItem| it.name == "client" && it.kind == images::Kind::EngineImage && it.current;
    let image = &made.iter().find(is_client).unwrap().place;
    let engine = Docker::connect_with_defaults().unwrap();
    let name = |which: &str| format!("never-started-{which}-{}-0", std::process::id());
    let (dead, alive) = (name("dead"), name("alive"));
    let (dead_folder, folder) = (make(&engine, image, &dead).await, make(&engine, image, &alive).await);
    // A run beside this test that cleaned up would remove it, too.
    let _alone = crate::common::scenarios::CLEANING.lock().await;
    // Only now is its controller dead.
    drop(dead_folder);
    let text = clean_up().await.lines().join("\n");
    let names = |line: &&str| line.contains(&format!("fencepost-{dead}"));
    assert_eq!(text.lines().filter(names).count(), 2, "one container, one network: {text}");
    assert!(!text.contains(&alive), "{text}");
    let force = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    engine.remove_container(&name_of_run(&alive), Some(force)).await.unwrap();
    engine.remove_network(&name_of_run(&alive)).await.unwrap();
    drop(folder);
}

#[test]
fn ends_processes_that_use_the_folder_and_no_others() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let sleeper = |place: &Path| {
        let place = place.join("mounted");
        std::fs::create_dir(&place).unwrap();
        let mut command = Command::new("sleep");
        command.arg("60");
        let own_mount = move || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
            Ok(mount(Some("tmpfs"), &place, Some("tmpfs"), MsFlags::empty(), None::<&str>)?)
        };
        // SAFETY: the closure makes system calls only.
        unsafe { command.pre_exec(own_mount) };
        command.spawn().expect("this test needs the right to mount")
    };
    let (mut user, mut bystander) = (sleeper(folder.path()), sleeper(other.path()));
    let process = i32::try_from(user.id()).unwrap();
    // Reaped beside it, as the init process would.
    let ended = std::thread::spawn(move || user.wait().unwrap());
    assert_eq!(end_all_in(folder.path()), [process]);
    assert!(!ended.join().unwrap().success());
    assert_eq!(bystander.try_wait().unwrap(), None);
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}
