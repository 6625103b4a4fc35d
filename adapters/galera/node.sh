# A node of the cluster; for `sh node.sh ADDRESS PORT DATADIR NAME PEERS`. The first one makes the cluster when it starts for the first time.
new=
if [ "$4" = n1 ] && [ ! -e /tmp/cluster-made ]; then
    new=--wsrep-new-cluster
    touch /tmp/cluster-made
fi
# As root, rsync could not write what it is sent.
exec setpriv --reuid=65534 --regid=65534 --clear-groups /usr/sbin/mariadbd --no-defaults --datadir="$3" --socket=/tmp/mariadb.sock --bind-address="$1" --port="$2" \
    --max-connections=300 --skip-grant-tables --skip-name-resolve --innodb-buffer-pool-size=32M \
    --binlog-format=ROW --innodb-autoinc-lock-mode=2 \
    --wsrep-on=ON --wsrep-provider=/usr/lib/galera/libgalera_smm.so --wsrep-sst-method=rsync \
    --wsrep-cluster-name=fencepost --wsrep-cluster-address="gcomm://$5" --wsrep-node-name="$4" --wsrep-node-address="$1" \
    --wsrep-provider-options="gcache.size=16M" $new
