-- A dump that goes into a database with another character set than that of its source.
SET NAMES utf8mb4; SET sql_mode='';
CREATE TABLE t (id INT PRIMARY KEY, u VARCHAR(20) CHARACTER SET utf8mb4, l VARCHAR(20) CHARACTER SET latin1, b VARBINARY(20), e ENUM('é','ab') CHARACTER SET latin1);
INSERT INTO t VALUES (1, x'F09F92A9C3A9', x'C3A9FF80', x'835C00C3A9FF', 1), (2, 'plain', 'plain', 'plain', 2);
