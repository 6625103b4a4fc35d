//! Images for users' programs: packages (or the user's Dockerfile), and the prepared folder. `setup` runs in
//! a container; only the folder is kept. It ends with its standard input, and removes itself.

use super::archive::{TarArchive, add_file, archive, packed};
use super::build::REPOSITORY;
use super::confinement::security_options;
use super::containers::remove_container;
use super::engine::{Engine, failed};
use super::labels::of_making;
use crate::environment::{
    Commands, Environment, FolderContent, PLACE, WorkFolder, certificates, environments, note_source,
    source_name, variables_in_an_image,
};
use crate::hash::short_hash;
use crate::images;
use crate::network::network_programs;
use crate::{ClusterError, DriverOptions};
use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::models::{ContainerConfig, ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CommitContainerOptionsBuilder, CreateContainerOptions,
    DownloadFromContainerOptionsBuilder, StartContainerOptions, UploadToContainerOptionsBuilder,
};
use futures_util::{StreamExt, TryStreamExt};
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

struct EnvironmentBuild<'a> {
    engine: &'a Engine,
    environment: &'a Environment,
    commands: Commands<'a>,
    labels: HashMap<String, String>,
    /// Of the image that is made.
    repository: &'a str,
    hash: &'a str,
}

impl Engine {
    pub(super) async fn environment(
        &self,
        environment: &Arc<Environment>,
        options: &DriverOptions,
    ) -> Result<String, ClusterError> {
        let content = FolderContent::read(environment).await?;
        let image = images::Image::with_packages(&environment.packages, environment.suite());
        let base = match (&environment.dockerfile, &environment.image) {
            (Some(_), _) => String::new(),
            (None, Some(image)) => self.of_user(image, &options.progress).await?,
            (None, None) => self.image(&image, options).await?,
        };
        let source = source_name(environment);
        let hash = short_hash(format!("{} {base}", content.hash).as_bytes());
        let repository = format!("{REPOSITORY}/lock-{source}");
        let tag = format!("{repository}:{hash}");
        let lock_name = format!("lock-{source}.lock");
        let name = format!("docker-{source}");
        let commands = Commands {
            environment,
            program: &options.program,
            log: environments()?.join(format!("{name}.log")),
            time_limit: options.setup_time_limit,
            progress: &options.progress,
        };
        let (labels, repository, hash) = (of_making(&lock_name)?, &*repository, &*hash);
        let build = EnvironmentBuild { engine: self, environment, commands, labels, repository, hash };
        let make = async {
            let work = WorkFolder::make(content, &name, &build.commands).await?;
            if environment.image.is_some() {
                let root = self.root(&image, options).await?;
                network_programs::copy(&root.folder, &work.folder())?;
            }
            let base = match &environment.dockerfile {
                Some(dockerfile) => build.build(&dockerfile.to_string_lossy(), &work, &source).await?,
                None => base,
            };
            build.finish(&work, &base).await?;
            note_source(environment)?;
            self.remove_outdated(&source, hash).await
        };
        self.make_once(&tag, &lock_name, make).await?;
        Ok(tag)
    }
}

impl EnvironmentBuild<'_> {
    async fn build(&self, dockerfile: &str, work: &WorkFolder, source: &str) -> Result<String, ClusterError> {
        let tag = format!("{REPOSITORY}/base-{source}:{}", self.hash);
        let what = format!("build {dockerfile}");
        self.commands.announce(&what);
        let mut log = self.commands.open_log()?;
        let context = archive(&work.folder());
        let print = |line: &str| _ = log.write_all(line.as_bytes());
        let built = self.engine.build(dockerfile, context, &tag, print).await;
        built.map_err(|error| self.commands.failed(&what, &format!("failed ({error})")))?;
        Ok(tag)
    }

    async fn finish(&self, work: &WorkFolder, base: &str) -> Result<(), ClusterError> {
        if self.environment.setup.is_empty() {
            return self.add_layer(base, PLACE, archive(&work.folder())).await;
        }
        let container = self.create(base, true).await?;
        let done = self.set_up(work, base, &container).await;
        remove_container(&self.engine.docker, &container).await;
        done
    }

    /// Runs `setup` in this container, and makes the image out of the base and the folder as it is then.
    async fn set_up(&self, work: &WorkFolder, base: &str, container: &str) -> Result<(), ClusterError> {
        let docker = &self.engine.docker;
        let cannot = failed(format!("start a container to set up {}", self.environment.name));
        self.upload(container, PLACE, archive(&work.folder())).await?;
        self.bring_certificates(container).await?;
        let attach = AttachContainerOptionsBuilder::default().stdin(true).stdout(true).stream(true).build();
        // While this lives the container does.
        let _life_line = docker.attach_container(container, Some(attach)).await.map_err(&cannot)?;
        docker.start_container(container, None::<StartContainerOptions>).await.map_err(&cannot)?;
        for line in &self.environment.setup {
            self.commands.announce(line);
            let ran = tokio::time::timeout(self.commands.time_limit, self.exec(container, line)).await;
            ran.unwrap_or_else(|_| Err(self.commands.too_slow(line)))?;
        }
        let options = DownloadFromContainerOptionsBuilder::default().path(PLACE).build();
        let folder = docker.download_from_container(container, Some(options));
        let chunks = folder.map_ok(|chunk| chunk.to_vec()).map_err(std::io::Error::other);
        self.add_layer(base, "/", chunks.boxed()).await
    }

    async fn add_layer(&self, base: &str, place: &str, archive: TarArchive) -> Result<(), ClusterError> {
        let container = self.create(base, false).await?;
        let made = match self.upload(&container, place, archive).await {
            Ok(()) => self.commit(&container).await,
            Err(error) => Err(error),
        };
        remove_container(&self.engine.docker, &container).await;
        made
    }

    /// Makes a container: one that runs until its standard input closes, or one that is only filled.
    async fn create(&self, base: &str, runs: bool) -> Result<String, ClusterError> {
        let program = if runs { "cat" } else { "none" };
        let body = ContainerCreateBody {
            image: Some(base.to_owned()),
            entrypoint: Some(vec![program.to_owned()]),
            working_dir: Some(PLACE.to_owned()),
            user: Some("0".to_owned()),
            labels: Some(self.labels.clone()),
            open_stdin: Some(runs),
            stdin_once: Some(runs),
            attach_stdin: Some(runs),
            attach_stdout: Some(runs),
            host_config: Some(HostConfig {
                auto_remove: Some(runs),
                // `setup` finds the network as this machine does.
                network_mode: Some(if runs { "host" } else { "none" }.to_owned()),
                security_opt: Some(security_options(false)),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let failed = failed(format!("make a container to set up {}", self.environment.name));
        let created = self.engine.docker.create_container(None::<CreateContainerOptions>, body).await;
        Ok(created.map_err(failed)?.id)
    }

    async fn upload(&self, container: &str, place: &str, archive: TarArchive) -> Result<(), ClusterError> {
        let options = UploadToContainerOptionsBuilder::default().path(place).build();
        let body = bollard::body_try_stream(archive.map_ok(Into::into));
        let failed = failed(format!("copy the folder of {} to the engine", self.environment.name));
        self.engine.docker.upload_to_container(container, Some(options), body).await.map_err(failed)
    }

    async fn bring_certificates(&self, container: &str) -> Result<(), ClusterError> {
        let Some(certificates) = certificates() else { return Ok(()) };
        let mut archive = tar::Builder::new(Vec::new());
        add_file(&mut archive, "etc/ssl/certs/ca-certificates.crt", &certificates)?;
        self.upload(container, "/", packed(archive)?).await
    }

    async fn exec(&self, container: &str, line: &str) -> Result<(), ClusterError> {
        let docker = &self.engine.docker;
        let cannot = failed(format!("run `{line}` to set up {}", self.environment.name));
        let variables = variables_in_an_image();
        let config = CreateExecOptions {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            // The engine carries the two streams apart, and loses their order.
            cmd: Some(["sh", "-c", &format!("exec 2>&1\n{line}")].map(str::to_owned).to_vec()),
            env: Some(variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect()),
            working_dir: Some(PLACE.to_owned()),
            ..CreateExecOptions::default()
        };
        let id = docker.create_exec(container, config).await.map_err(&cannot)?.id;
        let started = docker.start_exec(&id, None::<StartExecOptions>).await.map_err(&cannot)?;
        let mut log = self.commands.open_log()?;
        if let StartExecResults::Attached { mut output, input: _input } = started {
            while let Some(part) = output.next().await {
                let (LogOutput::StdOut { message } | LogOutput::StdErr { message }) =
                    part.map_err(&cannot)?
                else {
                    continue;
                };
                let _ = log.write_all(&message);
            }
        }
        match docker.inspect_exec(&id).await.map_err(&cannot)?.exit_code {
            Some(0) => Ok(()),
            Some(code) => Err(self.commands.failed(line, &format!("failed with code {code}"))),
            None => Err(self.commands.failed(line, "did not end, but closed its output")),
        }
    }

    async fn commit(&self, container: &str) -> Result<(), ClusterError> {
        let EnvironmentBuild { repository, hash, .. } = self;
        let options =
            CommitContainerOptionsBuilder::default().container(container).repo(repository).tag(hash).build();
        let made = self.engine.docker.commit_container(options, ContainerConfig::default()).await;
        made.map(drop).map_err(failed(format!("make the image {repository}:{hash}")))
    }
}
