PRAGMA application_id = 1414089797;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE machine (key TEXT PRIMARY KEY, identity TEXT NOT NULL, ceilings TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "machine" VALUES('m1','cpu of a test','{"flops": {}}');
CREATE TABLE program (
    key TEXT PRIMARY KEY,
    family TEXT NOT NULL,
    text TEXT NOT NULL,             
    display TEXT NOT NULL           
) WITHOUT ROWID;
INSERT INTO "program" VALUES('pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp','ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff','program text','display text');
CREATE TABLE record (
    id INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    program TEXT NOT NULL REFERENCES program (key),
    target TEXT NOT NULL REFERENCES target (key),
    threads INTEGER NOT NULL,
    sketch TEXT NOT NULL REFERENCES sketch (key),
    config TEXT NOT NULL,           
    builder TEXT NOT NULL,
    machine TEXT NOT NULL REFERENCES machine (key),
    run TEXT NOT NULL REFERENCES run (id),
    purpose TEXT NOT NULL,          
    status TEXT NOT NULL,
    times TEXT NOT NULL,            
    seconds REAL,                   
    abandoned INTEGER NOT NULL,
    stage TEXT NOT NULL,            
    message TEXT NOT NULL,
    compile_seconds REAL NOT NULL,
    check_seconds REAL NOT NULL,
    measure_seconds REAL NOT NULL,
    device TEXT NOT NULL,
    created REAL NOT NULL,
    elapsed REAL NOT NULL,          
    UNIQUE (task, sketch, config, builder, machine, purpose)
);
INSERT INTO "record" VALUES(2,'e4fc0cfeabb2c7c7def5b79337cf78abc3e2dc701a1d532c17639eaaa1c25940','pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp','tttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt',2,'s1','{"i":2}','b1','m1','run1','search','ok','[0.0015, 0.0016500000000000002, 0.00135]',0.0015,0,'','',0.05,0.0,0.0,'',102.0,0.0);
INSERT INTO "record" VALUES(3,'e4fc0cfeabb2c7c7def5b79337cf78abc3e2dc701a1d532c17639eaaa1c25940','pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp','tttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt',2,'s1','{"i":3}','b1','m1','run1','search','crash','[]',NULL,0,'time','signal 11',0.0,0.0,0.0,'',103.0,0.0);
INSERT INTO "record" VALUES(4,'e4fc0cfeabb2c7c7def5b79337cf78abc3e2dc701a1d532c17639eaaa1c25940','pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp','tttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt',2,'s1','{"i":2}','b1','m1','run1','confirm','ok','[0.002, 0.0022, 0.0018000000000000002]',0.002,0,'','',0.05,0.0,0.0,'',102.0,0.0);
INSERT INTO "record" VALUES(5,'e4fc0cfeabb2c7c7def5b79337cf78abc3e2dc701a1d532c17639eaaa1c25940','pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp','tttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt',2,'s1','{"i":4}','b1','m1','run1','search','ok','[0.004, 0.0044, 0.0036000000000000003]',0.004,0,'','',0.05,0.0,0.0,'',104.0,0.0);
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    task TEXT NOT NULL,
    request TEXT NOT NULL,          
    owner TEXT NOT NULL,            
    state TEXT NOT NULL,            
    started REAL NOT NULL,
    spent REAL NOT NULL             
) WITHOUT ROWID;
INSERT INTO "run" VALUES('run1','e4fc0cfeabb2c7c7def5b79337cf78abc3e2dc701a1d532c17639eaaa1c25940','{}','old/1','running',1.0,0.0);
CREATE TABLE sketch (key TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "sketch" VALUES('','');
INSERT INTO "sketch" VALUES('s1','split ...');
CREATE TABLE target (key TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "target" VALUES('tttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt','x86:avx2');
CREATE INDEX program_family ON program (family);
CREATE INDEX run_task ON run (task);
CREATE INDEX record_best ON record (task, seconds);
CREATE INDEX record_run ON record (run);
CREATE INDEX record_program ON record (program);
COMMIT;
