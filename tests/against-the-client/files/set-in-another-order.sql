-- not for mysql-9.7: it has no such modes
SET SQL_MODE = 'NO_FIELD_OPTIONS,TIME_ROUND_FRACTIONAL';
SET low_priority_updates = 1;
CREATE TABLE t (
  id INT NOT NULL PRIMARY KEY,
  f0 SET('a','b','c d') DEFAULT NULL,
  f1 INT UNSIGNED,
  f2 DOUBLE NOT NULL
) ENGINE=MyISAM DEFAULT CHARSET=latin1;
INSERT INTO t VALUES (2,'a,b',NULL,-2.25e10),(3,'a,b','12',1.5),(4,'a',4294967295,1.5),(5,'a',0,-2.25e10),(6,NULL,1,0),(7,'c d,a',4294967295,'3.125');
